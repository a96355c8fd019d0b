"""One reading of the gateway's metrics and workers, every two seconds, for all visitors."""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import monotonic, time
from typing import Any

from radixway.console.gateway_calls import (
    ConsoleCallError,
    GatewayCalls,
    GatewayUnreachableError,
    SignedOutError,
)
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.telemetry.scrapes import (
    GatewayStats,
    InvalidMetricsError,
    MetricsScrape,
    ScrapeHistory,
    WorkerStats,
    read_gateway_stats,
    read_worker_stats,
)

log = logging.getLogger(__name__)

EVERY_S = 2.0
_WINDOW_S = 10.0
"""Window of rates and quantiles."""
HISTORY_S = 600.0
"""How far charts go back."""
_UNWATCHED_S = 600.0
"""Reading goes on so long after the last page was closed, so that charts have no gap."""


@dataclass(frozen=True, slots=True)
class WatchSample:
    """A reading of the gateway."""

    number: int
    """Counts up."""
    at: float
    """Seconds since 1970."""
    figures: GatewayStats


class GatewayWatch:
    """Reads the gateway as long as a page shows it."""

    def __init__(self) -> None:
        self.unreachable = False
        """The gateway did not answer when it was last asked."""
        self.moments: deque[WatchSample] = deque(maxlen=int(HISTORY_S / EVERY_S))
        self.workers: Sequence[Mapping[str, Any]] = ()
        """Workers as in `/list_workers`."""
        self.by_worker: Mapping[str, WorkerStats] = {}
        self.latest: MetricsScrape | None = None
        self.read = 0
        """How often it has been read; a page that has seen this one has seen all."""
        self._scrapes = ScrapeHistory(_WINDOW_S)
        self._calls: GatewayCalls | None = None
        self._wanted_until = 0.0
        self._wanted = asyncio.Event()
        self._again = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Read while it holds."""
        task = asyncio.create_task(self._poll_loop())
        try:
            yield
        finally:
            await cancel_tasks([task])

    def request_updates(self, calls: GatewayCalls) -> None:
        """Read with these calls while the page of their visitor is open."""
        self._calls = calls
        self._wanted_until = monotonic() + _UNWATCHED_S
        self._wanted.set()

    def refresh_now(self) -> None:
        """Read again now, as something was changed."""
        self._again.set()

    def samples_since(self, number: int) -> list[WatchSample]:
        """Return the readings after the one of `number`."""
        return [moment for moment in self.moments if moment.number > number]

    async def _poll_loop(self) -> None:
        while True:
            if monotonic() > self._wanted_until:
                self._wanted.clear()
                self._scrapes.forget_scrapes()
            await self._wanted.wait()
            self._again.clear()
            assert self._calls is not None
            try:
                await self._take_sample(self._calls)
            except GatewayUnreachableError:
                self.unreachable = True
                self._scrapes.forget_scrapes()
            except SignedOutError:  # the visitor of these calls has signed out; another one's may follow
                self._wanted_until = 0.0
            except (ConsoleCallError, InvalidMetricsError) as error:
                log.warning("the gateway's figures cannot be read: %s", error)
            try:
                async with asyncio.timeout(EVERY_S):
                    await self._again.wait()
            except TimeoutError:
                pass

    async def _take_sample(self, calls: GatewayCalls) -> None:
        """Take a sample. Raises ConsoleCallError, InvalidMetricsError."""
        listing, text = await asyncio.gather(
            calls.get_json("/list_workers"), calls.send_request("GET", "/metrics/prometheus", timeout_s=10)
        )
        self.unreachable = False
        self.workers = listing["workers"]
        self.latest = scrape = MetricsScrape.parse_text(text, monotonic())
        self._scrapes.add_scrape(scrape)
        self.read += 1
        change = self._scrapes.delta_over_window()
        if change is not None:
            self.by_worker = read_worker_stats(change)
            self.moments.append(WatchSample(self.read, time(), read_gateway_stats(change)))
