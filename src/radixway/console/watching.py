"""One reading of the gateway's metrics and workers, every two seconds, for all who look."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic, time
from typing import Any

from radixway.console.calls import CallFailed, Calls, GatewayAway, SignedOut
from radixway.net.stopping import stop
from radixway.telemetry.figures import Figures, WorkerFigures, read_figures, read_worker_figures
from radixway.telemetry.scrapes import NotMetrics, Scrape, Scrapes

log = logging.getLogger(__name__)

EVERY_S = 2.0
_OVER_S = 10.0
"""Rates and quantiles are of so long."""
KEPT_S = 600.0
"""How far charts go back."""
_GOES_ON_S = 600.0
"""After the last one has left, so that who comes back finds no gap."""


@dataclass(frozen=True, slots=True)
class Moment:
    """What was read at one time."""

    number: int
    """Counts up."""
    at: float
    """Seconds since 1970."""
    figures: Figures


class Watch:
    """Looks for as long as somebody wants to see."""

    def __init__(self) -> None:
        self.away = False
        """The gateway did not answer when it was last asked."""
        self.moments: deque[Moment] = deque(maxlen=int(KEPT_S / EVERY_S))
        self.workers: Sequence[Mapping[str, Any]] = ()
        """As `/list_workers` has them."""
        self.by_worker: Mapping[str, WorkerFigures] = {}
        self.latest: Scrape | None = None
        self.read = 0
        """How often it has been read; a page that has seen this one has seen all."""
        self._scrapes = Scrapes(_OVER_S)
        self._calls: Calls | None = None
        self._wanted_until = 0.0
        self._wanted = asyncio.Event()
        self._again = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read while it holds."""
        task = asyncio.create_task(self._go_on())
        try:
            yield
        finally:
            await stop([task])

    def want(self, calls: Calls) -> None:
        """Somebody who may make these calls looks."""
        self._calls = calls
        self._wanted_until = monotonic() + _GOES_ON_S
        self._wanted.set()

    def look_again(self) -> None:
        """Something was changed: do not wait for the next time."""
        self._again.set()

    def since(self, number: int) -> list[Moment]:
        """What was read after that one."""
        return [moment for moment in self.moments if moment.number > number]

    async def _go_on(self) -> None:
        while True:
            if monotonic() > self._wanted_until:
                self._wanted.clear()
                self._scrapes.clear()
            await self._wanted.wait()
            self._again.clear()
            assert self._calls is not None
            try:
                await self._look(self._calls)
            except GatewayAway:
                self.away = True
                self._scrapes.clear()
            except SignedOut:  # whose calls these were has left, and somebody else comes or nobody
                self._wanted_until = 0.0
            except (CallFailed, NotMetrics) as error:
                log.warning("the gateway's figures cannot be read: %s", error)
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._again.wait()
            except TimeoutError:
                pass

    async def _look(self, calls: Calls) -> None:
        """Raises CallFailed, NotMetrics."""
        listing, text = await asyncio.gather(
            calls.get("/list_workers"), calls.send("GET", "/metrics/prometheus", timeout_s=10)
        )
        self.away = False
        self.workers = listing["workers"]
        self.latest = scrape = Scrape.read(text, monotonic())
        self._scrapes.add(scrape)
        self.read += 1
        change = self._scrapes.change()
        if change is not None:
            self.by_worker = read_worker_figures(change)
            self.moments.append(Moment(self.read, time(), read_figures(change)))
