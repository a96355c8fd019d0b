"""Tracks each worker's weight version, and keeps out workers that do not have the fleet's.

Versions are opaque strings. Two whole numbers compare as numbers; all others by when the gateway first heard
of them. The version that the fleet was last updated to is `expected`; a worker that joins, comes back or
missed the update is STALE, which is to say no candidate, until its own is the same.

    update ──► expected = "7" ──► worker at "7": READY
                               worker at "6", or back from the dead with "default": STALE
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import inf
from typing import Any

from radixway.core.component import Component
from radixway.core.config import WeightsConfig
from radixway.core.pipeline import Request
from radixway.routing.worker import Worker, WorkerState
from radixway.routing.worker_registry import WorkerRegistry

log = logging.getLogger(__name__)

MAX_VERSION_CHARACTERS = 256
"""Characters; what is longer is taken for no version."""
_MAX_VERSIONS = 100_000
"""Versions whose order is remembered; forgotten ones count as old."""


class WeightVersionTracker(Component):
    """Synchronous and free of I/O: probes, updates and replies tell it what they hear."""

    name = "weights"

    def __init__(self, registry: WorkerRegistry, config: WeightsConfig) -> None:
        self.expected: str | None = None
        """The fleet's version by the latest update or `expect`."""
        self.on_doubt: list[Callable[[Worker], None]] = []
        """Called when a worker's version must be read again."""
        self._registry = registry
        self._config = config
        self._pending: str | None = None
        """Version of the present update: workers switch one by one."""
        self._arrived: dict[str, int] = {}
        """Arrival time by version, in order."""
        self._turn = 0
        registry.on_add.append(self._refresh_readded)

    def describe(self) -> dict[str, Any]:
        """Return the expected version and each worker's own, by its URL."""
        return {
            "weight_version": self.expected if self.expected is not None else self.current_version(),
            "expected": self.expected,
            "workers": {worker.url: worker.weight_version for worker in self._registry},
        }

    def set_expected(self, version: str | None) -> None:
        """Set the version that the fleet is to have; None: any."""
        if version is not None:
            self._arrived.pop(version, None)  # a fleet that goes back to old weights has them as its newest
            self._record_arrival(version)
        self.expected = version
        self._review_workers()

    @contextmanager
    def update_in_progress(self, version: str | None) -> Iterator[None]:
        """An update is under way: who has the new version already is as good as who still has the old."""
        self._pending = version
        try:
            yield
        finally:
            self._pending = None
            self._review_workers()

    def record_update(
        self, taken: Mapping[Worker, str | None], missed: Collection[Worker], version: str | None
    ) -> None:
        """An update is over: who took it, with their version now if that is known, and who did not.

        `version`: what the whole fleet was to have, if it was for all of it; expected if anybody took it.
        """
        for worker, now in taken.items():
            if now is not None:
                self._set_version(worker, now)
            worker.weight_revision += 1
        if version is not None and taken:
            log.info("weights are version %s at %d of %d workers", version, len(taken), len(self._registry))
            self.set_expected(version)
        for worker in missed:
            self._request_refresh(worker)

    def record_probe(self, worker: Worker, version: str | None, *, since: int) -> None:
        """Set the version that the worker reported, or none, when probed at its `weight_revision` `since`."""
        if worker.weight_revision != since:
            return  # an update came in between
        if version is not None:
            self._set_version(worker, version)
        elif worker.state in (WorkerState.JOINING, WorkerState.DOWN):
            worker.weight_version = None  # it may be another process than the one that we knew

    def record_reply(self, worker: Worker, version: str) -> None:
        """A reply of the worker was made with `version`, which it may have left behind since."""
        known = worker.weight_version
        if version == known:
            return
        if known is None or (self.expected is None and self.version_lag(known, version) > 0):
            self._set_version(worker, version)
            if worker.state is WorkerState.READY:
                self.apply_staleness(
                    worker
                )  # it took no update of ours, so the reply is not one from before it
        elif self.expected is not None and version != self._pending:
            self._request_refresh(worker)

    def apply_staleness(self, worker: Worker) -> None:
        """Put a worker that is well where it belongs: READY, or STALE with the reason in `last_error`."""
        why = self.explain_stale(worker)
        if why is not None:
            if worker.state is not WorkerState.STALE:
                log.warning("worker %s waits for weights: %s", worker.name, why)
            worker.last_error = why
            self._registry.set_state(worker, WorkerState.STALE)
        elif worker.state is not WorkerState.READY:
            worker.last_error = None
            self._registry.set_state(worker, WorkerState.READY)

    def explain_stale(self, worker: Worker) -> str | None:
        """Explain why `worker` may not answer; None if it may."""
        expected, version = self.expected, worker.weight_version
        if expected is None or not self._config.gate:
            return None
        if version is None:
            silent = f"it does not say its weight version; the fleet's is {expected!r}"
            return silent if self._config.require_version else None
        if version in (expected, self._pending):
            return None
        return f"its weights are version {version!r}; the fleet's are {expected!r}"

    def filter_fresh(self, request: Request, workers: Sequence[Worker]) -> Sequence[Worker]:
        """Return the `workers` whose weights are new enough for `request`.

        Where a limit is given and versions are known, a worker that says none is not among them.
        """
        max_staleness, min_version = request.max_staleness, request.min_weight_version
        if max_staleness is None and min_version is None:
            return workers
        current = self.current_version() if max_staleness is not None else None
        return tuple(
            worker
            for worker in workers
            if (min_version is None or self._lag_of(worker, min_version) <= 0)
            and (max_staleness is None or current is None or self._lag_of(worker, current) <= max_staleness)
        )

    def current_version(self) -> str | None:
        """The version that staleness is measured from: what is expected, else the newest any worker has."""
        if self.expected is not None:
            return self.expected
        newest: str | None = None
        for worker in self._registry:
            version = worker.weight_version
            if version is not None and (newest is None or self.version_lag(newest, version) > 0):
                newest = version
        return newest

    def version_lag(self, version: str, current: str) -> float:
        """Count the versions that `version` is behind `current`; below 0 if ahead, infinite if unknown."""
        if version == current:
            return 0
        if version.isdecimal() and current.isdecimal():
            return int(current) - int(version)
        if current not in self._arrived:
            return inf
        return self._arrived[current] - self._arrived.get(version, -inf)

    def check(self) -> None:
        """Check that no candidate should wait, and none waits without a reason. Raises AssertionError."""
        for worker in self._registry:
            if worker.state is WorkerState.READY:
                assert self.explain_stale(worker) is None, worker.name
            elif worker.state is WorkerState.STALE:
                assert self.explain_stale(worker) == worker.last_error, worker.name
            assert worker.weight_version is None or worker.weight_version in self._arrived
        assert list(self._arrived.values()) == sorted(self._arrived.values())

    def _lag_of(self, worker: Worker, current: str) -> float:
        return inf if worker.weight_version is None else self.version_lag(worker.weight_version, current)

    def _set_version(self, worker: Worker, version: str) -> None:
        self._record_arrival(version)
        worker.weight_version = version

    def _record_arrival(self, version: str) -> None:
        if version not in self._arrived:
            self._turn += 1
            self._arrived[version] = self._turn
            if len(self._arrived) > _MAX_VERSIONS:
                del self._arrived[next(iter(self._arrived))]

    def _review_workers(self) -> None:
        for worker in self._registry:
            if worker.state in (WorkerState.READY, WorkerState.STALE):
                self.apply_staleness(worker)

    def _request_refresh(self, worker: Worker) -> None:
        for tell in self.on_doubt:
            tell(worker)

    def _refresh_readded(self, worker: Worker) -> None:
        """Read the version of a worker that was added again: it may have restarted."""
        if self.expected is not None and self._config.gate and worker.state is WorkerState.READY:
            self._registry.set_state(worker, WorkerState.JOINING)
            self._request_refresh(worker)  # a running probe may have asked the server before it


def parse_version(value: object) -> str | None:
    """A version as workers and trainers write it, text or number; None if it is neither."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    return value if isinstance(value, str) and 0 < len(value) <= MAX_VERSION_CHARACTERS else None
