"""A second copy of a request, to another worker, when the first byte is late; who begins first answers.

Source: Dean and Barroso, "The Tail at Scale", 2013: a copy after the 95th percentile costs few percent more
load and takes off most of the tail.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from radixway.core.config import HedgeConfig
from radixway.core.pipeline import Reply, Request, WorkerFailedError
from radixway.core.telemetry import MetricsRegistry
from radixway.routing.transports.admission import AdmissionController
from radixway.routing.transports.assignment import WorkerAssignment

_REMEMBERED = 256
_MIN_SAMPLES = 20
"""First-byte times needed before the percentile is used."""
_RECOMPUTE_EVERY = 16
_MAX_SAVED_COPIES = 10.0
"""Largest burst of hedged copies, so that a slow fleet does not get double the work."""


class _LatencyWindow:
    __slots__ = ("_latest", "_seen", "value")

    def __init__(self) -> None:
        self._latest: deque[float] = deque(maxlen=_REMEMBERED)
        self._seen = 0
        self.value: float | None = None

    def record_latency(self, seconds: float, percentile: float) -> None:
        self._latest.append(seconds)
        self._seen += 1
        if self._seen >= _MIN_SAMPLES and (self.value is None or self._seen % _RECOMPUTE_EVERY == 0):
            ordered = sorted(self._latest)
            self.value = ordered[int(len(ordered) * percentile / 100)]


class HedgeBudget:
    """The delay before a copy, and the budget of copies. Pure."""

    def __init__(self, config: HedgeConfig) -> None:
        self._config = config
        self._times: dict[tuple[str | None, bool], _LatencyWindow] = {}
        self._credit = 0.0

    def delay_s(self, model: str | None, stream: bool) -> float | None:
        """Seconds after which a request that begins now should be copied; None: never. Feeds the budget."""
        config = self._config
        if not (stream or config.whole_replies):
            return None
        self._credit = min(_MAX_SAVED_COPIES, self._credit + config.most_share)
        times = self._times.get((model, stream))
        learnt = times.value if times is not None and config.after_percentile is not None else None
        return config.after_s if learnt is None else learnt

    def record_first_byte(self, model: str | None, stream: bool, seconds: float) -> None:
        """A first byte came after so many seconds. `model` is one that is known to be served."""
        if self._config.after_percentile is not None:
            times = self._times.get((model, stream))
            if times is None:
                times = self._times[model, stream] = _LatencyWindow()
            times.record_latency(seconds, self._config.after_percentile)

    @property
    def has_budget(self) -> bool:
        """The budget allows another copy."""
        return self._credit >= 1

    def consume_budget(self) -> None:
        """A copy is sent."""
        self._credit -= 1


RunAttempt = Callable[[Request, WorkerAssignment], Coroutine[Any, Any, Reply]]
"""Carries a request to a place. Raises WorkerFailedError."""

_Running = dict[asyncio.Task[Reply], WorkerAssignment]


class HedgedDispatch:
    """Sends at most one copy of a request, and no more copies in all than the budget allows.

    Requests leave no state at workers, whatever the endpoint, so a copy does no harm.
    """

    def __init__(
        self,
        hedging: HedgeBudget,
        admission: AdmissionController,
        attempt: RunAttempt,
        metrics: MetricsRegistry,
    ) -> None:
        self._hedging = hedging
        self._admission = admission
        self._attempt = attempt
        self._metrics = metrics

    async def send_hedged(self, request: Request, place: WorkerAssignment) -> Reply:
        """The first answer. Raises WorkerFailedError when there is none."""
        began_s = request.journal.elapsed_s()
        delay_s = self._delay_s(request) if place.prefill is None else None
        if delay_s is None:
            reply = await self._attempt(request, place)
        else:
            reply = await self._race_attempts(request, place, delay_s)
        self._hedging.record_first_byte(
            request.routing.metrics_model, request.stream, request.journal.elapsed_s() - began_s
        )
        return reply

    def _delay_s(self, request: Request) -> float | None:
        if request.pinned is not None or request.routing.failed_workers:
            return None
        if request.routing.data_plane is not None:
            return None  # it carries one copy
        return self._hedging.delay_s(request.routing.metrics_model, request.stream)

    async def _race_attempts(self, request: Request, place: WorkerAssignment, delay_s: float) -> Reply:
        running: _Running = {}
        winner: asyncio.Task[Reply] | None = None
        try:
            first = self._start_attempt(request, place, running)
            await asyncio.wait(running, timeout=delay_s)
            copy = None if first.done() else self._assign_copy(request, place, delay_s)
            if copy is not None:
                self._start_attempt(request, copy, running)
            winner = await _wait_first_answer(request, running)
            if copy is not None:
                self._metrics.hedges("lost" if winner is first else "won").inc()
            return winner.result()
        finally:
            await _cancel_losers({task: place for task, place in running.items() if task is not winner})

    def _start_attempt(
        self, request: Request, place: WorkerAssignment, running: _Running
    ) -> asyncio.Task[Reply]:
        task = asyncio.get_running_loop().create_task(self._attempt(request, place))
        running[task] = place
        return task

    def _assign_copy(
        self, request: Request, first: WorkerAssignment, delay_s: float
    ) -> WorkerAssignment | None:
        if not self._hedging.has_budget:
            return None
        place = self._admission.assign_copy(request, first)
        if place is not None:
            self._hedging.consume_budget()
            request.journal.add("hedge", worker=place.worker.name, after_s=round(delay_s, 6))
        return place


async def _wait_first_answer(request: Request, running: _Running) -> asyncio.Task[Reply]:
    """Return the first attempt that answers. Raises the last WorkerFailedError if all fail."""
    pending = set(running)
    while True:
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        answered = [task for task in running if task in done and task.exception() is None]
        if answered:
            return answered[0]
        for task in done:
            failure = task.exception()
            if not (pending and isinstance(failure, WorkerFailedError)):
                task.result()  # raises it
            request.routing.failed_workers.append(running[task].worker.name)


async def _cancel_losers(losers: _Running) -> None:
    """Cancel attempts and release their workers, however far they came."""
    for task in losers:
        task.cancel()
    outcomes = await asyncio.gather(*losers, return_exceptions=True)
    for outcome, place in zip(outcomes, losers.values(), strict=True):
        if isinstance(outcome, Reply) and outcome.chunks is not None:
            await outcome.chunks.aclose()
        place.release()
