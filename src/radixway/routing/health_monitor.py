"""Watches workers: finds them ready, takes them out when they fail, brings them back when they recover."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from typing import Protocol

from radixway.core.config import HealthConfig
from radixway.routing.weight_versions import WeightVersionTracker
from radixway.routing.worker import ErrorKind, ServerInfo, Worker, WorkerState
from radixway.routing.worker_registry import WorkerRegistry

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 0.1
_FIRST_LOOK_S = 1.0
_DESCRIBE_EVERY = 15
"""Probes of a healthy worker between two reads of its model list."""

_UNPROVEN = frozenset({WorkerState.JOINING, WorkerState.DOWN, WorkerState.STALE})


class ProbeError(Exception):
    """The worker did not answer, or not as a healthy worker does."""

    def __init__(self, message: str, kind: ErrorKind = "unwell") -> None:
        super().__init__(message)
        self.kind = kind


class WorkerProbe(Protocol):
    """Asks one worker about itself; transports implement it."""

    async def check(self, worker: Worker) -> None:
        """Return if the worker answers. Raises ProbeError."""

    async def describe(self, worker: Worker) -> ServerInfo:
        """Read models and capacity. Raises ProbeError."""


class HealthMonitor:
    """Watches each worker in a task, from its addition to its removal."""

    def __init__(
        self,
        registry: WorkerRegistry,
        probe: WorkerProbe,
        config: HealthConfig,
        weights: WeightVersionTracker,
    ) -> None:
        self._registry = registry
        self._weights = weights
        self._doubted: set[Worker] = set()
        """Workers whose description may have changed."""
        self._probe = probe
        self._config = config
        self._tasks: dict[Worker, asyncio.Task[None]] = {}
        self._nudges: dict[Worker, asyncio.Event] = {}
        self._looked: dict[Worker, asyncio.Event] = {}
        self.on_silence: list[Callable[[Worker], None]] = []
        """Called at every failed probe of an unavailable worker."""

    def open(self) -> None:
        """Watch all workers, those there and those that come."""
        self._registry.on_add.append(self._start_probing)
        self._registry.on_remove.append(self._stop_probing)
        self._weights.on_doubt.append(self.request_refresh)
        for worker in self._registry:
            self._start_probing(worker)

    def report_failure(self, worker: Worker, *, gone: bool) -> None:
        """A request just failed on this worker: probe it now.

        `gone`: it takes no connections at all, so send it nothing more until a probe says that it is well.
        """
        nudge = self._nudges.get(worker)
        if nudge is not None:
            if gone and worker.state is WorkerState.READY:
                self._registry.set_state(worker, WorkerState.DOWN)
            nudge.set()

    def request_refresh(self, worker: Worker) -> None:
        """Ask the worker now what it serves, and with which weights."""
        nudge = self._nudges.get(worker)
        if nudge is not None:
            self._doubted.add(worker)
            nudge.set()

    async def wait_first_probe(self, worker: Worker) -> None:
        """Wait until a worker just added has been probed once, well or not; a second at most.

        A caller that adds a healthy worker and sends a request at once must not get "no workers".
        """
        looked = self._looked.get(worker)
        if looked is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_LOOK_S):
                    await looked.wait()

    async def stop_probing(self) -> None:
        """Stop watching."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    def _start_probing(self, worker: Worker) -> None:
        if worker in self._tasks:
            if worker.state is WorkerState.JOINING:
                self._looked[worker].clear()
            self._nudges[worker].set()
            return
        self._nudges[worker] = asyncio.Event()
        self._looked[worker] = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._tasks[worker] = loop.create_task(self._probe_loop(worker), name=f"health {worker.name}")

    def _stop_probing(self, worker: Worker) -> None:
        self._nudges.pop(worker, None)
        self._doubted.discard(worker)
        self._looked.pop(worker, None)
        task = self._tasks.pop(worker, None)
        if task is not None:
            task.cancel()

    async def _probe_loop(self, worker: Worker) -> None:
        nudge, looked = self._nudges[worker], self._looked[worker]
        pause_s = self._config.interval_s
        for round_ in count(1):
            try:
                await self.probe_worker(worker, describe=round_ % _DESCRIBE_EVERY == 0)
                pause_s = self._config.interval_s
            except ProbeError:
                # A starting or unreachable worker is probed soon at first, then with growing pauses.
                if worker.failures <= 1:
                    pause_s = min(_FIRST_PAUSE_S, self._config.interval_s)
                elif worker.state is WorkerState.READY:
                    pause_s = min(pause_s * 2, self._config.interval_s)
                else:
                    pause_s = min(pause_s * 2, self._config.backoff_max_s)
            looked.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await nudge.wait()
            nudge.clear()

    async def probe_worker(self, worker: Worker, *, describe: bool = False) -> None:
        """Probe once and move the worker to the state that follows. Raises ProbeError if it is not well."""
        try:
            await self._probe.check(worker)
            if describe or worker in self._doubted or worker.failures or worker.state in _UNPROVEN:
                self._doubted.discard(worker)
                revision = worker.weight_revision
                findings = await self._probe.describe(worker)
                self._registry.update_info(worker, findings)
                self._weights.record_probe(worker, findings.weight_version, since=revision)
        except ProbeError as failure:
            self._record_failure(worker, failure)
            raise
        except Exception as error:
            log.exception("probing worker %s failed unexpectedly", worker.name)
            defect = ProbeError(f"the probe itself failed: {error}", "defect")
            self._record_failure(worker, defect)
            raise defect from error
        worker.failures = 0
        worker.error_kind = worker.logged_kind = None
        if worker.state in (WorkerState.JOINING, WorkerState.DOWN):
            log.info("worker %s answers: %s", worker.name, ", ".join(worker.models) or "no models named")
        if worker.state is not WorkerState.DRAINING:
            self._weights.apply_staleness(worker)

    def _record_failure(self, worker: Worker, failure: ProbeError) -> None:
        worker.failures += 1
        worker.last_error, worker.error_kind = str(failure), failure.kind
        if worker.failures < self._config.failure_threshold:
            return
        in_use = worker.state in (WorkerState.READY, WorkerState.STALE)
        if in_use or worker.logged_kind != failure.kind:
            worker.logged_kind = failure.kind
            log.warning("worker %s is down: %s", worker.name, failure)
        if in_use:
            self._registry.set_state(worker, WorkerState.DOWN)
        for tell in self.on_silence:
            tell(worker)
