"""Watches workers: finds them ready, takes them out when they fail, brings them back when they recover."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Protocol

from radixway.config import HealthSection
from radixway.routing.registry import Registry
from radixway.routing.worker import Worker, WorkerState

log = logging.getLogger(__name__)


class ProbeFailed(Exception):
    """The worker did not answer, or not as a healthy worker does."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What a worker tells of itself. None where it says nothing."""

    models: tuple[str, ...] | None = None
    kv_tokens: int | None = None
    max_batch_size: int | None = None


class Probe(Protocol):
    """How a worker is asked; transports implement it."""

    async def check(self, worker: Worker) -> None:
        """Return if the worker answers. Raises ProbeFailed."""
        ...

    async def describe(self, worker: Worker) -> Findings:
        """Read models and capacity. Raises ProbeFailed."""
        ...


class HealthMonitor:
    """One watching task per worker, from the moment it is added until it is removed."""

    def __init__(self, registry: Registry, probe: Probe, config: HealthSection) -> None:
        self._registry = registry
        self._probe = probe
        self._config = config
        self._tasks: dict[Worker, asyncio.Task[None]] = {}
        self._nudges: dict[Worker, asyncio.Event] = {}
        registry.on_add.append(self._watch)
        registry.on_remove.append(self._unwatch)
        for worker in registry:
            self._watch(worker)

    def suspect(self, worker: Worker, *, gone: bool) -> None:
        """A request just failed on this worker: probe it now.

        `gone`: it takes no connections at all, so send it nothing more until a probe says that it is well.
        """
        nudge = self._nudges.get(worker)
        if nudge is not None:
            if gone and worker.state is WorkerState.READY:
                self._registry.set_state(worker, WorkerState.DOWN)
            nudge.set()

    async def close(self) -> None:
        """Stop watching."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()

    def _watch(self, worker: Worker) -> None:
        if worker in self._tasks:
            self._nudges[worker].set()
            return
        self._nudges[worker] = asyncio.Event()
        loop = asyncio.get_running_loop()
        self._tasks[worker] = loop.create_task(self._run(worker), name=f"health {worker.name}")

    def _unwatch(self, worker: Worker) -> None:
        self._nudges.pop(worker, None)
        task = self._tasks.pop(worker, None)
        if task is not None:
            task.cancel()

    async def _run(self, worker: Worker) -> None:
        nudge = self._nudges[worker]
        pause_s = self._config.interval_s
        while True:
            try:
                await self.examine(worker)
                pause_s = self._config.interval_s
            except ProbeFailed:
                # A worker that is starting or down is asked soon at first, then less and less often.
                first = min(0.1, self._config.interval_s)
                pause_s = first if worker.failures <= 1 else min(pause_s * 1.5, self._config.backoff_max_s)
                if worker.state is WorkerState.READY:
                    pause_s = min(pause_s, self._config.interval_s)
            try:
                async with asyncio.timeout(pause_s):
                    await nudge.wait()
            except TimeoutError:
                pass
            nudge.clear()

    async def examine(self, worker: Worker) -> None:
        """Probe once and move the worker to the state that follows. Raises ProbeFailed if it is not well."""
        try:
            await self._probe.check(worker)
            if worker.state in (WorkerState.JOINING, WorkerState.DOWN):
                self._learn(worker, await self._probe.describe(worker))
        except ProbeFailed as failure:
            worker.failures += 1
            worker.last_error = str(failure)
            if worker.state is WorkerState.READY and worker.failures >= self._config.failure_threshold:
                log.warning("worker %s is down: %s", worker.name, failure)
                self._registry.set_state(worker, WorkerState.DOWN)
            raise
        worker.failures = 0
        if worker.state in (WorkerState.JOINING, WorkerState.DOWN):
            log.info("worker %s is ready: %s", worker.name, ", ".join(worker.models) or "no models named")
            worker.last_error = None
            self._registry.set_state(worker, WorkerState.READY)

    def _learn(self, worker: Worker, findings: Findings) -> None:
        if findings.models is not None and not worker.given_models:
            self._registry.set_models(worker, findings.models)
        worker.kv_tokens = worker.kv_tokens or findings.kv_tokens
        worker.max_batch_size = worker.max_batch_size or findings.max_batch_size
