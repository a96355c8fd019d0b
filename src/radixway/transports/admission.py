"""A request's way to its place at a worker: at once where there is room, otherwise through the queue."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil

from radixway.config import RoutingSection
from radixway.pipeline import (
    ANY_MODEL,
    GatewayError,
    ModelNotFound,
    NoWorkers,
    Overloaded,
    RefusalReason,
    Request,
    WeightsTooOld,
    WorkerNotFound,
)
from radixway.routing import (
    Breakers,
    ErrorKind,
    Limits,
    PromptReader,
    Reads,
    Registry,
    RequestQueue,
    RoutingRequest,
    Selector,
    Waiting,
    WeightVersions,
    Worker,
    WorkerState,
)
from radixway.telemetry import Metrics
from radixway.transports.pairing import Pairing
from radixway.transports.place import Place

_COUNTED = ("ids", "tokenizer", "worker")
"""Sources by which a prompt's length is no estimate."""

_KINDS: Mapping[ErrorKind, str] = {
    "certificate": "a TLS certificate that is not valid",
    "defect": "a defect of the gateway",
    "name": "a name that does not resolve",
    "no_http": "something that does not speak HTTP",
    "refused": "connections refused",
    "timeout": "no answer in time",
    "tls": "TLS that fails",
    "unreachable": "a network error",
    "unwell": "a health check that fails",
}
"""In words for clients: no address is named."""


@dataclass(slots=True, eq=False, kw_only=True)
class _Waiter(Waiting):
    """A request in the queue and the task that waits for its place."""

    request: Request
    place: asyncio.Future[Place]
    since: float
    """When it joined the queue; monotonic seconds."""
    ahead: int = 0
    """How many stood before it when it came."""


class Admission:
    """Finds places. Woken by what frees them: a lease that ends, a worker that comes or recovers."""

    def __init__(
        self,
        registry: Registry,
        selector: Selector,
        prompts: PromptReader,
        breakers: Breakers,
        metrics: Metrics,
        config: RoutingSection,
        weights: WeightVersions,
    ) -> None:
        self._weights = weights
        self._registry = registry
        self._selector = selector
        self._prompts = prompts
        self._breakers = breakers
        self._metrics = metrics
        self._config = config
        self._limits = Limits(config)
        self._pairing = Pairing(registry, selector, breakers, self._limits, metrics, config)
        self._queue: RequestQueue[_Waiter] = RequestQueue(config.queue)
        self._kept: set[Worker] = set()
        """Workers whose next room is for whoever is first in a line, though others would fit in sooner."""
        registry.on_add.append(self._fleet_changed)
        registry.on_remove.append(self._fleet_changed)
        registry.on_state.append(self._fleet_changed)
        metrics.gauge("radixway_queued", "Requests that wait for a worker", lambda: len(self._queue))

    async def place(self, request: Request) -> Place:
        """A place for `request` at one of the workers that serve its model; release its lease.

        Raises:
            ModelNotFound: no worker that we know serves the model.
            WorkerNotFound: the request is pinned to a worker that we do not know.
            NoWorkers: none of those that do can answer now, or (WeightsTooOld) with weights new enough.
            Overloaded: all are at their limits and the queue is full, or the wait takes too long.
        """
        began_s = request.journal.elapsed_s()
        candidates = self._ready(request)
        if not candidates:
            raise self._nobody(request)
        request.known_model = request.model or "default"
        prompt = self._read(request, candidates)
        if not isinstance(prompt, RoutingRequest):
            prompt = await prompt
            candidates = self._ready(request)  # much may have happened meanwhile
            if not candidates:
                raise self._nobody(request)
        if prompt.source in _COUNTED:
            request.prompt_tokens = prompt.tokens
        if request.ttft_s is not None:
            self._check_objective(request, request.ttft_s, prompt, candidates)
        if self._limits.on:
            self._serve()
            candidates = self._with_room(candidates, prompt)
            if not candidates:
                return await self._wait(request, prompt)
        place = self._take(request, prompt, candidates)
        took_s = request.journal.elapsed_s() - began_s
        self._metrics.steps.selecting(place.choice.policy).add(took_s)
        return place

    def _candidates(self, request: Request) -> Sequence[Worker]:
        """The ready workers of its model, as far as its tenant may use them."""
        found, tenancy = self._registry.candidates(_pool(request.model)), request.tenancy
        if tenancy is None or not tenancy.confines:
            return found
        return tuple(worker for worker in found if tenancy.may_use(worker.pools, worker.models))

    def second_place(self, request: Request, first: Place) -> Place | None:
        """A place for a copy of `request` at another healthy worker, if one has room at once."""
        prompt, models = first.choice.request, first.worker.models[:1]
        others = [
            worker
            for worker in self._weights.within(request, self._candidates(request))
            if worker is not first.worker
            and worker.answers_alone
            and worker.name not in request.tried
            and not worker.breaker.tripped
            and worker.models[:1] == models  # the body names one of them where it asked for any
        ]
        free = self._with_room(others, prompt) if self._limits.on else others
        return self._take(request, prompt, free) if free else None

    def _read(
        self, request: Request, candidates: Sequence[Worker]
    ) -> RoutingRequest | Awaitable[RoutingRequest]:
        """What there is to know of the prompt, if there is anything to choose by it."""
        alone = (
            len(candidates) == 1
            and not self._limits.on
            and self._registry.is_alone(candidates[0], _pool(request.model))
        )
        reads: Reads = self._selector.policy(request.model)
        if self._pairing.concerns(candidates):
            reads = self._pairing.reads(request.model)
        return self._prompts.read(request, reads, candidates, alone=alone)

    def _ready(self, request: Request) -> Sequence[Worker]:
        """The workers that may answer now, full or not."""
        if request.pinned is not None:
            return self._pinned(request)
        ready = self._pairing.usable(request.model, self._candidates(request), tenancy=request.tenancy)
        ready = self._weights.within(request, ready)
        if request.tried:
            ready = tuple(worker for worker in ready if worker.name not in request.tried) or ready
        return self._breakers.admitted(ready)

    def _pinned(self, request: Request) -> Sequence[Worker]:
        usable = self._pairing.usable(request.model, self._candidates(request), tenancy=request.tenancy)
        return tuple(
            worker
            for worker in self._weights.within(request, usable)
            if request.pinned in (worker.name, worker.url)
        )

    def _nobody(self, request: Request) -> GatewayError:
        """Why there is no candidate."""
        if request.pinned is not None:
            known = [worker for worker in self._registry if request.pinned in (worker.name, worker.url)]
            if not known:
                return WorkerNotFound(f"there is no worker {request.pinned}", param="x-radixway-worker")
            if known[0].state is WorkerState.READY and (refusal := self._too_old(request)) is not None:
                return refusal
            return NoWorkers(f"worker {request.pinned} cannot answer this now: it is {known[0].state.value}")
        model = _pool(request.model)
        if model is not None and self._registry.surely_lacks(model):
            return ModelNotFound(model)
        if self._candidates(request) and (refusal := self._too_old(request)) is not None:
            return refusal
        if request.tenancy is not None and request.tenancy.pools:
            return self._nobody_in_pools(request.tenancy.pools, model)
        return NoWorkers(_why_nobody(self._registry, model))

    def _nobody_in_pools(self, pools: frozenset[str], model: str | None) -> GatewayError:
        """Why there is no candidate among those that the tenant is confined to."""
        mine = [worker for worker in self._registry if not pools.isdisjoint(worker.pools)]
        if model is not None and mine and all(each.models and model not in each.models for each in mine):
            return ModelNotFound(model)
        asked = f" for the model {model!r}" if model else ""
        return NoWorkers(f"no worker of the tenant's pools can answer now{asked}{_why_away(mine)}")

    def _too_old(self, request: Request) -> GatewayError | None:
        """What to say of workers whose weights are too old for the request, if it minds."""
        wanted = []
        if request.max_staleness is not None:
            newest = self._weights.current()
            wanted.append(f"at most {request.max_staleness} versions behind {newest!r} (max_staleness)")
        if request.min_weight_version is not None:
            wanted.append(f"version {request.min_weight_version!r} or newer (min_weight_version)")
        return (
            WeightsTooOld(f"no worker that can answer has weights {' and '.join(wanted)}") if wanted else None
        )

    def _with_room(self, candidates: Sequence[Worker], prompt: RoutingRequest) -> Sequence[Worker]:
        free = self._limits.with_room(candidates, prompt)
        free = self._pairing.usable(prompt.model, free, prompt)
        return [worker for worker in free if worker not in self._kept] if self._kept else free

    def _take(self, request: Request, prompt: RoutingRequest, candidates: Sequence[Worker]) -> Place:
        if request.ttft_s is not None:
            left = request.ttft_s - request.journal.elapsed_s()
            expected = self._selector.expected_ttft_s(prompt, candidates)
            soon = [worker for worker, s in zip(candidates, expected, strict=True) if s <= left]
            candidates = soon or candidates
        if self._pairing.concerns(candidates):
            return self._pairing.take(request, prompt, candidates)
        choice = self._selector.pick(prompt, candidates)
        request.journal.add("select", choice)
        lease = self._selector.reserve(choice)
        self._breakers.sent(choice.worker, lease)
        return Place(choice, lease)

    def _check_objective(
        self, request: Request, ttft_s: float, prompt: RoutingRequest, candidates: Sequence[Worker]
    ) -> None:
        """Note, or refuse if so configured, a request whose first token is expected too late everywhere."""
        expected = min(self._selector.expected_ttft_s(prompt, candidates))
        if self._limits.on and not self._with_room(candidates, prompt):
            expected += self._queue.drain_s() or 0.0
        late = request.journal.elapsed_s() + expected - ttft_s
        if late <= 0:
            return
        request.journal.add("objective", ttft_s=ttft_s, expected_s=round(expected, 6), missed=True)
        if self._config.enforce_ttft:
            message = f"the first token is expected in {expected:.3g} s, not within {ttft_s:g} s"
            raise self._refusal("ttft_unreachable", message, max(1, ceil(late)))

    async def _wait(self, request: Request, prompt: RoutingRequest) -> Place:
        """Stand in the queue until there is a place. A client that leaves makes room at once."""
        loop, queue = asyncio.get_running_loop(), self._queue
        elapsed_s, now = request.journal.elapsed_s(), self._selector.ledger.clock()
        waiter = _Waiter(
            prompt,
            (request.model, request.pinned),
            now - elapsed_s,
            queue.priority_of(request.priority),
            self._uncached(prompt, self._ready(request)),
            request=request,
            place=loop.create_future(),
            since=now,
        )
        left_out = queue.push(waiter)
        if left_out is waiter:
            raise self._full()
        if left_out is not None:
            self._fail(left_out, self._full())
        waiter.ahead = queue.ahead_of(waiter)
        self._serve()
        timer = loop.call_later(*self._patience(request, elapsed_s), waiter)
        try:
            place = await waiter.place
        except asyncio.CancelledError:
            if not waiter.place.cancelled() and waiter.place.exception() is None:
                waiter.place.result().release()  # it came in the same moment
            raise
        finally:
            timer.cancel()
            queue.remove(waiter)
            self._serve()
        return place

    def _patience(self, request: Request, elapsed_s: float) -> tuple[float, Callable[[_Waiter], None]]:
        """How long a request may wait, and what becomes of it then."""
        timeout_s = self._config.queue.timeout_s
        if (
            self._config.enforce_ttft
            and request.ttft_s is not None
            and request.ttft_s - elapsed_s < timeout_s
        ):
            return request.ttft_s - elapsed_s, self._miss_objective
        return timeout_s, self._time_out

    def _time_out(self, waiter: _Waiter) -> None:
        message = f"no worker had room within {self._config.queue.timeout_s:g} s"
        self._fail(waiter, self._refusal("queue_timeout", message))

    def _miss_objective(self, waiter: _Waiter) -> None:
        message = (
            f"no worker had room within {waiter.request.ttft_s:g} s, in which the first token was to come"
        )
        self._fail(waiter, self._refusal("ttft_unreachable", message))

    def _full(self) -> Overloaded:
        waiting = f"{len(self._queue)} requests wait" if self._queue else "requests may not wait"
        return self._refusal("queue_full", f"every worker is at its limit and {waiting} already")

    def _refusal(self, reason: RefusalReason, message: str, retry_after_s: int | None = None) -> Overloaded:
        self._metrics.refused(reason)
        return Overloaded(reason, message, retry_after_s or self._queue.retry_after_s())

    def _fail(self, waiter: _Waiter, error: GatewayError) -> None:
        self._queue.remove(waiter)
        if not waiter.place.done():
            waiter.place.set_exception(error)

    def _serve(self) -> None:
        """Something may have made room: give it to those who are next."""
        self._kept.clear()
        if self._queue:
            self._queue.serve(self._offer, self._uncached_of, self._selector.ledger.clock())

    def _offer(self, waiter: _Waiter) -> bool:
        """Give the waiting request a place if there is one."""
        request = waiter.request
        if waiter.place.done():
            return False  # it leaves in a moment, and then the next is served
        candidates = self._ready(request)
        free = self._with_room(candidates, waiter.prompt)
        if not free:
            self._kept.update(candidates)
            return False
        waited_s = self._selector.ledger.clock() - waiter.since
        self._metrics.queued(request.known_model, waited_s)
        request.journal.add("queue", waited_s=round(waited_s, 6), ahead=waiter.ahead)
        waiter.place.set_result(self._take(request, waiter.prompt, free))
        return True

    def _uncached_of(self, waiter: _Waiter) -> int:
        return self._uncached(waiter.prompt, self._ready(waiter.request))

    def _uncached(self, prompt: RoutingRequest, candidates: Sequence[Worker]) -> int:
        return min(self._selector.uncached_tokens(prompt, candidates), default=prompt.tokens)

    def _fleet_changed(self, _: Worker) -> None:
        """Who waits for workers that are gone for good, or has a fallback to go to, waits no longer."""
        self._limits.review(self._registry)
        self._selector.ledger.on_release = self._serve if self._limits.on or self._queue else None
        for waiter in tuple(self._queue):
            if not self._ready(waiter.request) and not self._may_return(waiter.request):
                self._fail(waiter, self._nobody(waiter.request))
        self._serve()

    def _may_return(self, request: Request) -> bool:
        """A worker that this request could use is starting or may recover, and there is no fallback."""
        if request.model in self._config.fallbacks and request.pinned is None:
            return False
        model, pinned = _pool(request.model), request.pinned
        tenancy = request.tenancy
        return any(
            worker.state is not WorkerState.DRAINING
            and (tenancy is None or tenancy.may_use(worker.pools, worker.models))
            and (model is None or model in worker.models)
            and (pinned is None or pinned in (worker.name, worker.url))
            for worker in self._registry
        )


def _pool(model: str | None) -> str | None:
    """The model whose workers may answer; None for all of them."""
    return None if model == ANY_MODEL else model


def _why_nobody(registry: Registry, model: str | None) -> str:
    """Why there is no candidate, as far as is known: an unknown model may be a silent worker's."""
    message = "no worker can answer now" + (f" for the model {model!r}" if model else "")
    for worker in registry:
        if worker.state is WorkerState.STALE and (model is None or model in worker.models):
            message += f"; {worker.name} waits for weights: {worker.last_error}"
            break
    message += _why_away(each for each in registry if model is None or model in (each.models or (model,)))
    if model is None or model in registry.models():
        return message
    silent = [worker.name for worker in registry if not worker.models]
    return message + (f"; not yet heard from: {', '.join(silent)}" if silent else "")


def _why_away(workers: Iterable[Worker]) -> str:
    """What keeps them from answering, without saying which of them it is."""
    kinds = Counter(worker.error_kind for worker in workers if worker.error_kind is not None)
    told = [f"{count} × {_KINDS[kind]}" for kind, count in sorted(kinds.items())]
    return f"; out of reach: {', '.join(told)}" if told else ""
