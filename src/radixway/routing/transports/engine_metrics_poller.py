"""Asks workers for their own metrics when somebody wants to know how they are, and never otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic

import aiohttp

from radixway.routing import EngineMetrics, Worker, WorkerRegistry, WorkerState, parse_engine_metrics
from radixway.routing.transports.http_transport import HttpTransport
from radixway.routing.transports.worker_responses import ResponseTooLargeError, read_bounded

_GOOD_FOR_S = 2.0
_PATIENCE_S = 1.0
_MAX_PAGE_BYTES = 1 << 21
"""Of a worker's page; engines' have some tens of kilobytes, and whoever reads it keeps requests waiting."""
_ANSWER = frozenset({WorkerState.READY, WorkerState.STALE, WorkerState.DRAINING})


class EngineMetricsPoller:
    """Keeps `Worker.report`. Belongs to one event loop."""

    def __init__(
        self, registry: WorkerRegistry, transport: HttpTransport, clock: Callable[[], float] = monotonic
    ) -> None:
        self._registry = registry
        self._transport = transport
        self._clock = clock
        self._asked_at = -_GOOD_FOR_S
        self._asking = asyncio.Lock()

    async def poll_workers(self) -> None:
        """Ask all that can answer, unless that was done a moment ago. One that is late tells nothing."""
        async with self._asking:
            if self._clock() < self._asked_at + _GOOD_FOR_S:
                return
            workers = list(self._registry)
            asked = {
                asyncio.create_task(self._fetch_metrics(worker)): worker
                for worker in workers
                if _is_answering(worker)
            }
            done, late = await asyncio.wait(asked, timeout=_PATIENCE_S) if asked else (set(), set())
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            reports = {asked[task]: task.result() for task in done}
            for worker in workers:
                worker.report = reports.get(worker)
            self._asked_at = self._clock()

    async def _fetch_metrics(self, worker: Worker) -> EngineMetrics | None:
        headers = {"authorization": f"Bearer {worker.api_key}"} if worker.api_key else None
        try:
            async with self._transport.session.get(
                f"{worker.url}/metrics",
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=_PATIENCE_S),
                allow_redirects=False,
            ) as response:
                if response.status != 200:
                    return None
                return parse_engine_metrics(await read_bounded(response, _MAX_PAGE_BYTES))
        except (aiohttp.ClientError, TimeoutError, OSError, ResponseTooLargeError):
            return None


def _is_answering(worker: Worker) -> bool:
    return worker.state in _ANSWER
