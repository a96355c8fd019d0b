"""What people look at: the latest requests, prefixes, simulations; put together for a gateway."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter

from radixway.config import Config
from radixway.surfaces import Gate
from radixway.surfaces.requests import request_routes
from radixway.telemetry import JournalBook
from radixway.tenants import Prices
from radixway.understanding import Understanding


class Seeing:
    """Its routes are for administrators; of requests, tenants see their own. Use it inside of `running()`."""

    def __init__(self, config: Config, journals: JournalBook, reading: Understanding, gate: Gate) -> None:
        prices = Prices(config.tenants.pricing, reading.pricing_of)
        self.routes: list[APIRouter] = [request_routes(journals, prices.of, gate)]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """At the end, nothing of it is left behind."""
        yield
