"""What people look at: the latest requests, prefixes, simulations; put together for a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter

from radixway.config import Config
from radixway.road import Road
from radixway.routing import Registry
from radixway.simulate import Jobs
from radixway.surfaces import Gate
from radixway.surfaces.prefixes import Sources, prefix_routes
from radixway.surfaces.requests import request_routes
from radixway.surfaces.simulations import recent_trace, simulation_routes
from radixway.telemetry import JournalBook
from radixway.tenants import Prices
from radixway.trajectories import Tries
from radixway.understanding import Understanding

_MOST_RECENT = 5000
"""Of the latest requests, those that are simulated again."""


class Seeing:
    """Its routes are for administrators; of requests, tenants see their own. Use it inside of `running()`."""

    def __init__(
        self,
        config: Config,
        registry: Registry,
        journals: JournalBook,
        tries: Tries | None,
        reading: Understanding,
        road: Road,
        gate: Gate,
    ) -> None:
        prices = Prices(config.tenants.pricing, reading.pricing_of)
        self.jobs = Jobs(config.simulations)

        shown = config.console.show_prompts
        sources = Sources(journals, registry, road.selector, road.transport, tries, shows_text=shown)

        async def recent() -> bytes:
            return await asyncio.to_thread(recent_trace, journals.latest(_MOST_RECENT))

        self.routes: list[APIRouter] = [
            request_routes(journals, prices.of, gate, config.console.trace_url),
            prefix_routes(sources, gate.access),
            simulation_routes(config.simulations, self.jobs, recent, gate.access),
        ]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """At the end no simulation goes on."""
        async with self.jobs.running():
            yield
