"""Whatever comes, in any order: no page is lost, held twice or read with others' tokens; all ends."""

from array import array
from collections import Counter
from dataclasses import dataclass
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from radixway.core.radix import Order as Eviction
from radixway.core.radix import lfu, lru, priority, slru
from radixway.engine import waiting_queue
from radixway.engine.engine_request import EngineRequest, ScheduledRequest
from radixway.engine.kv_cache_manager import KVCacheManager
from radixway.engine.page_pool import PagePool
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.scheduler import Scheduler
from radixway.engine.waiting_queue import AdmissionOrder


@dataclass(frozen=True)
class Arrive:
    """A request for `most` tokens after a prompt over a tiny alphabet, so that prefixes meet often."""

    prompt: tuple[int, ...]
    most: int
    priority: int
    salt: str


@dataclass(frozen=True)
class Abort:
    """End the n-th request that is in the scheduler, if there are so many."""

    nth: int


@dataclass(frozen=True)
class Clear:
    """Flush the cache if nothing runs."""


prompts = st.lists(st.integers(0, 2), min_size=1, max_size=24).map(tuple)
arrivals = st.builds(Arrive, prompts, st.integers(0, 24), st.integers(0, 2), st.sampled_from(["", "", "a"]))
events = st.one_of(
    arrivals, arrivals, st.just(None), st.just(None), st.builds(Abort, st.integers(0, 9)), st.builds(Clear)
)


def request_for(event: Arrive, arrival: int) -> EngineRequest:
    return EngineRequest(
        id=f"r{arrival}",
        tokens=array("i", event.prompt),
        params=SamplingParams(max_tokens=event.most),
        arrival=arrival,
        priority=event.priority,
        namespace=event.salt,
    )


def next_token(request: EngineRequest) -> int:
    """What the imagined model says: it depends on all that came before, as a real one's answer does."""
    return hash(tuple(request.tokens)) % 3


def continuation(request: EngineRequest) -> list[int]:
    """What the imagined model says to its prompt when nothing interferes."""
    alone = EngineRequest(id="", tokens=request.tokens[: request.prompt_len], params=request.params)
    while len(alone.tokens) < request.max_len:
        alone.tokens.append(next_token(alone))
    return list(alone.tokens[alone.prompt_len :])


class ImaginedKV:
    """Notes for every slot of the pool what a model would have computed from to fill it: the whole prefix."""

    def __init__(self, page_size: int) -> None:
        self._page_size = page_size
        self._made_from: dict[int, tuple[str, tuple[int, ...]]] = {}

    def compute(self, work: list[ScheduledRequest]) -> None:
        """Write what is new, then read back all that attention would read."""
        for request, tokens in work:
            for place in range(request.num_computed_tokens, request.num_computed_tokens + tokens):
                self._made_from[self._slot(request, place)] = self._prefix(request, place)
        for request, tokens in work:
            for place in range(request.num_computed_tokens + tokens):
                assert self._made_from[self._slot(request, place)] == self._prefix(request, place)

    def _slot(self, request: EngineRequest, place: int) -> int:
        return request.pages[place // self._page_size] * self._page_size + place % self._page_size

    @staticmethod
    def _prefix(request: EngineRequest, place: int) -> tuple[str, tuple[int, ...]]:
        return request.namespace, tuple(request.tokens[: place + 1])


def simulate(scheduler: Scheduler, script: list[Arrive | Abort | Clear | None]) -> None:
    capacity = scheduler.cache.pool.total * scheduler.cache.page_size
    script = list(reversed(script))
    kv = ImaginedKV(scheduler.cache.page_size)
    arrived = aborted = ended = 0
    for _ in range(3000):
        event = script.pop() if script else None
        inside = [*scheduler.running.values(), *scheduler.waiting]
        if isinstance(event, Arrive) and len(event.prompt) + event.most <= capacity:
            arrived += 1
            scheduler.add_request(request_for(event, arrived))
        elif isinstance(event, Abort) and event.nth < len(inside):
            scheduler.finish_request(inside[event.nth])
            aborted += 1
            scheduler.check()
        elif isinstance(event, Clear) and not scheduler.running:
            scheduler.cache.reset_prefix_cache()
            scheduler.check()
        elif not script and not inside:
            break
        work = scheduler.schedule()
        scheduler.check()
        assert sum(tokens for _, tokens in work) <= scheduler.max_batch_tokens
        assert all(tokens > 0 for _, tokens in work)
        assert work or not (scheduler.running or scheduler.waiting), "a step with nothing done"
        kv.compute(work)
        samples = [item.request for item in work if item.reaches_end]
        scheduler.update_after_step(work)
        scheduler.check()
        for request in samples:
            if len(request.tokens) < request.max_len:
                request.tokens.append(next_token(request))
            if len(request.tokens) >= request.max_len:
                assert list(request.tokens[request.prompt_len :]) == continuation(request)
                scheduler.finish_request(request)
                ended += 1
        scheduler.check()
    else:
        raise AssertionError("it does not come to an end")
    assert ended == arrived - aborted
    assert scheduler.cache.num_available_pages == scheduler.cache.pool.total
    scheduler.cache.reset_prefix_cache()
    assert scheduler.cache.pool.num_free == scheduler.cache.pool.total


def try_script(
    script: list[Arrive | Abort | Clear | None],
    page: int,
    pages: int,
    batch: int,
    order: AdmissionOrder,
    cached: bool,
    eviction: Eviction,
) -> None:
    cache = KVCacheManager(PagePool(pages), page, enabled=cached, eviction=eviction)
    simulate(Scheduler(cache, max_running=4, max_batch_tokens=batch, order=order), script)


shapes = {
    "page": st.sampled_from([1, 2, 4]),
    "pages": st.integers(1, 16),
    "batch": st.sampled_from([4, 7, 64]),
    "order": st.sampled_from(get_args(AdmissionOrder)),
    "cached": st.sampled_from([True, True, True, False]),
    "eviction": st.sampled_from([lru, lfu, slru, priority]),
}


@given(st.lists(events, max_size=40), st.fixed_dictionaries(shapes))
def test_any_sequence_of_events_leaves_the_books_in_order(script, shape) -> None:
    try_script(script, **shape)


@pytest.mark.slow
@settings(max_examples=5000, deadline=None)
@given(st.lists(events, max_size=120), st.fixed_dictionaries(shapes))
def test_a_great_many_sequences_leave_the_books_in_order(script, shape) -> None:
    try_script(script, **shape)


def step(scheduler: Scheduler) -> None:
    """One step of the imagined model."""
    work = scheduler.schedule()
    samples = [item.request for item in work if item.reaches_end]
    scheduler.update_after_step(work)
    for request in samples:
        if len(request.tokens) < request.max_len:
            request.tokens.append(next_token(request))
        if len(request.tokens) >= request.max_len:
            scheduler.finish_request(request)


together = st.lists(st.builds(Arrive, prompts, st.just(1), st.integers(0, 2), st.sampled_from(["", "a"])))


@given(together, shapes["page"], shapes["batch"], st.integers(1, 9), shapes["order"])
def test_what_many_need_at_the_same_time_is_computed_once(requests, page, batch, running, order) -> None:
    cache = KVCacheManager(PagePool(2000), page)
    scheduler = Scheduler(cache, max_running=running, max_batch_tokens=batch, order=order)
    for arrival, event in enumerate(requests):
        scheduler.add_request(request_for(event, arrival))
    computed: Counter[tuple[object, ...]] = Counter()
    while scheduler.running or scheduler.waiting:
        work = scheduler.schedule()
        for request, tokens in work:
            last_whole_page = request.num_reusable_tokens // page * page
            for place in range(
                request.num_computed_tokens, min(request.num_computed_tokens + tokens, last_whole_page)
            ):
                page_end = (place // page + 1) * page
                computed[request.namespace, place, tuple(request.tokens[:page_end])] += 1
        scheduler.update_after_step(work)
        for request in [
            item.request for item in work if item.request.num_computed_tokens == len(item.request.tokens)
        ]:
            scheduler.finish_request(request)
    assert not computed or max(computed.values()) == 1


@given(st.lists(arrivals, min_size=60, max_size=150), st.integers(1, 4), shapes["page"], shapes["order"])
def test_nothing_overtakes_a_request_that_has_been_passed_too_often(stream, running, page, order) -> None:
    most_passed, waiting_queue.MAX_TIMES_PASSED = waiting_queue.MAX_TIMES_PASSED, 3
    try:
        cache = KVCacheManager(PagePool(64), page)
        scheduler = Scheduler(cache, max_running=running, max_batch_tokens=16, order=order)
        patient = request_for(Arrive((9,) * 30, most=2, priority=-5, salt=""), 0)
        scheduler.add_request(patient)
        for arrival, event in enumerate(stream, 1):
            scheduler.add_request(request_for(event, arrival))
            starving = {request.id for request in scheduler.waiting if request.times_passed >= 3}
            waiting = {request.id for request in scheduler.waiting}
            step(scheduler)
            admitted = waiting - {request.id for request in scheduler.waiting}
            if patient.id in starving and patient.id not in admitted:
                assert admitted <= starving
        while scheduler.running or scheduler.waiting:
            step(scheduler)
    finally:
        waiting_queue.MAX_TIMES_PASSED = most_passed
    assert len(patient.tokens) == 32
