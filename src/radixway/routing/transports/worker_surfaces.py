"""What each worker offers, by its own `/openapi.json`: read when it first matters, and again when that may
have changed.
"""

import asyncio
from collections.abc import Callable, Collection
from time import monotonic

import aiohttp
import msgspec

from radixway.core.pipeline import ANY_MODEL, Endpoint, Next, Reply, Request
from radixway.routing import Worker, WorkerRegistry, WorkerState
from radixway.routing.transports.hosted.transport import list_hosted_paths
from radixway.routing.transports.http_transport import HttpTransport
from radixway.routing.transports.worker_responses import CALL_ERRORS

_PATH = "/openapi.json"
_TIMEOUT = aiohttp.ClientTimeout(total=2.0)
_GOOD_FOR_S = 300.0
"""A worker may be replaced by another version at its address without a failed probe between."""


class _OpenApiDocument(msgspec.Struct):
    paths: dict[str, msgspec.Raw] = {}


_document = msgspec.json.Decoder(_OpenApiDocument)


class WorkerSurfaceReader:
    """Keeps `Worker.surfaces`. Belongs to one event loop."""

    def __init__(
        self, registry: WorkerRegistry, transport: HttpTransport, clock: Callable[[], float] = monotonic
    ) -> None:
        self._registry = registry
        self._transport = transport
        self._clock = clock
        self._read_at: dict[Worker, float] = {}
        self._reading: dict[Worker, asyncio.Task[None]] = {}
        registry.on_learn.append(self._forget_worker)
        registry.on_state.append(self._note_state)
        registry.on_remove.append(self._forget_worker)

    async def find_offering(self, model: str | None, path: str) -> list[Worker]:
        """Return the ready workers of `model` (None: of any) that say that they offer `path`."""
        workers = self._registry.candidates(None if model == ANY_MODEL else model)
        await self.learn_surfaces(workers)
        return [worker for worker in workers if worker.surfaces is not None and path in worker.surfaces]

    async def learn_surfaces(self, workers: Collection[Worker]) -> None:
        """Read what `workers` offer, where that is not known already. Never raises for a worker."""
        due = self._clock() - _GOOD_FOR_S
        missing = [worker for worker in workers if self._read_at.get(worker, due) <= due]
        if missing:
            await asyncio.gather(*(self._share_reading(worker) for worker in missing))

    async def stop_reading(self) -> None:
        """End the calls that are under way."""
        tasks = list(self._reading.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _share_reading(self, worker: Worker) -> None:
        """Wait for one call to `worker`, however many ask; a caller that leaves does not end it."""
        task = self._reading.get(worker)
        if task is None:
            loop = asyncio.get_running_loop()
            task = self._reading[worker] = loop.create_task(self._read_surfaces(worker))
            task.add_done_callback(lambda _: self._reading.pop(worker, None))
        await asyncio.shield(task)

    async def _read_surfaces(self, worker: Worker) -> None:
        if worker.hosted is not None:
            worker.surfaces = list_hosted_paths(worker.hosted)
            self._read_at[worker] = self._clock()
            return
        try:
            status, _, body = await self._transport.exchange(worker, "GET", _PATH, limits=_TIMEOUT)
        except CALL_ERRORS:
            status, body = 0, b""
        worker.surfaces = _offered_paths(body) if status == 200 else None
        if not worker.removed:
            self._read_at[worker] = self._clock()

    def _note_state(self, worker: Worker) -> None:
        if worker.state in (WorkerState.JOINING, WorkerState.DOWN):
            self._forget_worker(worker)

    def _forget_worker(self, worker: Worker) -> None:
        self._read_at.pop(worker, None)


class SurfaceSelection:
    """A `pipeline.Middleware`: learns what workers offer before one of several is chosen by it."""

    step_name = "Surfaces"

    def __init__(self, registry: WorkerRegistry, surfaces: WorkerSurfaceReader) -> None:
        self._registry = registry
        self._surfaces = surfaces

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether not every worker has `endpoint`."""
        return endpoint.by_surface

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Return the answer of `call_next`."""
        workers = self._registry.candidates(None if request.model == ANY_MODEL else request.model)
        if len(workers) > 1:
            await self._surfaces.learn_surfaces(workers)
        return await call_next(request)


def _offered_paths(body: bytes) -> frozenset[str] | None:
    """Return the paths of the OpenAPI document `body`; None: it is none, or has none."""
    try:
        paths = _document.decode(body).paths
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return frozenset(paths) or None
