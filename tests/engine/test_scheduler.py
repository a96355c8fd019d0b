"""Who runs when, and who has which pages: decided without a model."""

from array import array
from collections.abc import Iterable

import pytest

from radixway.core.radix import Order as Eviction
from radixway.core.radix import lfu, lru, priority, slru
from radixway.engine.engine_request import EngineRequest
from radixway.engine.kv_cache_manager import KVCacheManager
from radixway.engine.page_pool import PagePool
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.scheduler import Scheduler
from radixway.engine.waiting_queue import MAX_TIMES_PASSED, AdmissionOrder

PAGE = 4


def scheduler(
    pages: int = 100,
    *,
    running: int = 8,
    batch: int = 64,
    order: AdmissionOrder = "lpm",
    cached: bool = True,
    eviction: Eviction = lru,
) -> Scheduler:
    cache = KVCacheManager(PagePool(pages), PAGE, enabled=cached, eviction=eviction)
    return Scheduler(cache, max_running=running, max_batch_tokens=batch, order=order)


class Arrivals:
    """Makes requests that arrive one after another."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(
        self, prompt: Iterable[int], most: int = 3, *, priority: int = 0, salt: str = ""
    ) -> EngineRequest:
        self.count += 1
        return EngineRequest(
            id=f"r{self.count}",
            tokens=array("i", prompt),
            params=SamplingParams(max_tokens=most),
            arrival=self.count,
            priority=priority,
            namespace=salt,
        )


@pytest.fixture
def new() -> Arrivals:
    return Arrivals()


def step(scheduler: Scheduler) -> dict[str, int]:
    """One step with a model that always samples 1; how many tokens of whom were computed."""
    work = scheduler.schedule()
    scheduler.check()
    done = {request.id: tokens for request, tokens in work}
    samples = [item.request for item in work if item.reaches_end]
    scheduler.update_after_step(work)
    scheduler.check()
    for request in samples:
        request.tokens.append(1)
        if len(request.tokens) >= request.max_len:
            scheduler.finish_request(request)
    scheduler.check()
    return done


def run(scheduler: Scheduler, most: int = 1000) -> list[dict[str, int]]:
    steps = []
    while scheduler.running or scheduler.waiting:
        steps.append(step(scheduler))
        assert len(steps) < most, "it does not come to an end"
    return steps


def test_a_request_computes_its_prompt_then_a_token_a_step(new: Arrivals) -> None:
    s = scheduler()
    s.add_request(new(range(10), most=4))
    assert run(s) == [{"r1": 10}, {"r1": 1}, {"r1": 1}, {"r1": 1}]


def test_a_long_prompt_is_computed_in_chunks_beside_running_requests(new: Arrivals) -> None:
    s = scheduler(batch=16)
    s.add_request(new(range(100, 104), most=10))
    step(s)
    s.add_request(new(range(40), most=1))
    assert step(s) == {"r1": 1, "r2": 15}
    assert step(s) == {"r1": 1, "r2": 15}
    assert step(s) == {"r1": 1, "r2": 10}


def test_what_is_left_of_the_budget_starts_the_next_prompt(new: Arrivals) -> None:
    s = scheduler(batch=16)
    for start in (0, 100, 200):
        s.add_request(new(range(start, start + 10), most=1))
    assert run(s) == [{"r1": 10, "r2": 6}, {"r2": 4, "r3": 10}]


def test_no_more_run_than_allowed(new: Arrivals) -> None:
    s = scheduler(running=2)
    for start in (0, 100, 200):
        s.add_request(new(range(start, start + 4), most=2))
    assert run(s) == [{"r1": 4, "r2": 4}, {"r1": 1, "r2": 1}, {"r3": 4}, {"r3": 1}]


def test_the_next_turn_of_a_chat_finds_its_own_answer(new: Arrivals) -> None:
    s = scheduler()
    first = new(range(10), most=8)
    s.add_request(first)
    run(s)
    second = new([*first.tokens, 77, 78, 79])
    s.add_request(second)
    assert step(s) == {"r2": 5}
    assert second.cached_tokens == 16, "of 18 tokens, 17 have KV, which is four full pages"


def test_the_last_prompt_token_is_always_computed(new: Arrivals) -> None:
    s = scheduler()
    s.add_request(new(range(8)))
    run(s)
    s.add_request(new(range(8)))
    assert step(s) == {"r2": 4}, "the second page holds the last token"


def test_identical_prompts_that_arrive_together_are_computed_once(new: Arrivals) -> None:
    s = scheduler(running=64, batch=128)
    for _ in range(50):
        s.add_request(new(range(41), most=1))
    steps = run(s)
    assert steps[0] == {"r1": 41}
    assert sum(sum(work.values()) for work in steps) == 41 + 49


def test_followers_wait_only_while_their_next_page_is_being_computed(new: Arrivals) -> None:
    s = scheduler(batch=8)
    s.add_request(new(range(32), most=1))
    s.add_request(new([*range(12), 500, 501, 502, 503, 504], most=1))
    s.add_request(new([900, 901], most=1))
    assert step(s) == {"r1": 8}
    assert step(s) == {"r1": 8}, "r2 still needs the page that r1 computes now"
    assert step(s) == {"r1": 8}
    assert s.waiting and {"r2", "r3"} == {request.id for request in s.waiting}
    assert step(s) == {"r1": 8}
    assert step(s) == {"r2": 5, "r3": 2}


def test_a_preempted_request_does_not_wait_for_those_that_go_on(new: Arrivals) -> None:
    s = scheduler()
    s.add_request(new(range(100, 104), most=20))
    s.add_request(new([0, 1, 200, 201], most=1))
    step(s)
    back = new(range(2), most=30)
    back.tokens.extend(range(200, 218))
    s.add_request(back)
    assert step(s) == {"r1": 1, "r3": 16}


def test_unrelated_requests_do_not_wait_for_a_leader(new: Arrivals) -> None:
    s = scheduler(batch=64)
    s.add_request(new(range(20), most=1))
    s.add_request(new(range(20), most=1))
    s.add_request(new(range(50, 60), most=1))
    assert step(s) == {"r1": 20, "r3": 10}
    assert step(s) == {"r2": 4}


def test_the_longest_cached_prefix_goes_first(new: Arrivals) -> None:
    s = scheduler(running=1)
    s.add_request(new(range(20), most=1))
    run(s)
    s.add_request(new(range(100, 120), most=1))
    s.add_request(new([*range(8), 500, 501], most=1))
    s.add_request(new([*range(16), 500, 501], most=1))
    assert run(s) == [{"r4": 2}, {"r3": 2}, {"r2": 20}]


def test_fcfs_keeps_the_order_of_arrival(new: Arrivals) -> None:
    s = scheduler(running=1, order="fcfs")
    s.add_request(new(range(20), most=1))
    run(s)
    s.add_request(new(range(100, 120), most=1))
    s.add_request(new([*range(16), 500, 501], most=1))
    assert run(s) == [{"r2": 20}, {"r3": 2}]


def test_dfs_weight_finishes_the_busiest_branch_before_the_next(new: Arrivals) -> None:
    s = scheduler(order="dfs_weight")
    trunk, left, right = range(8), range(100, 108), range(200, 208)
    for branch in ([*trunk, *left, 300], [*trunk, *right, 300]):
        s.add_request(new(branch, most=1))
    run(s)
    s.add_request(new(range(400, 409), most=1))
    s.add_request(new([*trunk, *right, 500], most=1))
    s.add_request(new([*trunk, *left, 500], most=1))
    s.add_request(new([*trunk, 600, 601], most=1))
    s.add_request(new([*trunk, *left, 700], most=1))
    assert list(step(s)) == ["r5", "r7", "r4", "r6", "r3"], "left, left, right, trunk, elsewhere"


@pytest.mark.parametrize("order", ["lpm", "dfs_weight", "priority"])
def test_the_order_is_one_among_requests_of_the_same_priority(new: Arrivals, order: AdmissionOrder) -> None:
    s = scheduler(running=1, order=order)
    s.add_request(new(range(20), most=1))
    run(s)
    s.add_request(new([*range(16), 500], most=1))
    s.add_request(new(range(100, 108), most=1, priority=1))
    s.add_request(new([*range(16), 600], most=1, priority=1))
    cached_first = order != "priority"
    assert [next(iter(work)) for work in run(s)] == (
        ["r4", "r3", "r2"] if cached_first else ["r3", "r4", "r2"]
    )


def test_fcfs_knows_no_priority(new: Arrivals) -> None:
    s = scheduler(running=1, order="fcfs")
    for rank in (0, 5, 9):
        s.add_request(new(range(10), most=1, priority=rank))
    assert [next(iter(work)) for work in run(s)] == ["r1", "r2", "r3"]


def test_priority_goes_before_prefixes(new: Arrivals) -> None:
    s = scheduler(running=1)
    s.add_request(new(range(20), most=1))
    run(s)
    s.add_request(new([*range(16), 500], most=1))
    s.add_request(new(range(100, 108), most=1, priority=5))
    assert run(s) == [{"r3": 8}, {"r2": 1}]


def test_a_request_that_many_have_passed_goes_first(new: Arrivals) -> None:
    s = scheduler(running=1)
    s.add_request(new(range(20), most=1))
    run(s)
    s.add_request(new([900] * 5, most=1))
    passed = 0
    while True:
        s.add_request(new([*range(16), passed], most=1, priority=9))
        if "r2" in step(s):
            break
        passed += 1
    assert passed == MAX_TIMES_PASSED


def test_prefixes_are_not_shared_between_namespaces(new: Arrivals) -> None:
    s = scheduler()
    s.add_request(new(range(20), most=1, salt="a"))
    run(s)
    s.add_request(new(range(20), most=1, salt="b"))
    s.add_request(new(range(20), most=1, salt="a"))
    assert step(s) == {"r2": 20, "r3": 4}


def test_without_the_cache_nothing_is_shared_and_all_is_freed(new: Arrivals) -> None:
    s = scheduler(cached=False)
    for _ in range(3):
        s.add_request(new(range(20), most=1))
    assert run(s) == [{"r1": 20, "r2": 20, "r3": 20}]
    assert s.cache.pool.num_free == 100


def test_requests_that_computed_the_same_end_up_with_the_same_pages(new: Arrivals) -> None:
    s = scheduler(running=4)
    one, other = new([5, 6], most=12), new([5, 6], most=12)
    s.add_request(one)
    s.add_request(other)
    for _ in range(8):
        step(s)
    assert list(one.pages[:2]) == list(other.pages[:2])
    assert s.cache.pool.num_free + s.cache.num_cached_pages + 2 + 2 == 100, (
        "two shared pages, and one tail for each"
    )


def test_the_latest_arrival_is_preempted_when_pages_run_out_and_loses_nothing(new: Arrivals) -> None:
    s = scheduler(pages=9)
    s.add_request(new(range(8), most=16))
    s.add_request(new(range(100, 108), most=16))
    computed = {"r1": 0, "r2": 0}
    for work in run(s):
        for name, tokens in work.items():
            computed[name] += tokens
    assert s.preemptions
    assert computed["r1"] == 8 + 15, "the first is never preempted"
    assert computed["r2"] < 2 * (8 + 15), "the second found most of its own pages again"
    assert s.cache.num_available_pages == 9


def test_lower_priority_is_preempted_first(new: Arrivals) -> None:
    s = scheduler(pages=9)
    s.add_request(new(range(8), most=16))
    s.add_request(new(range(100, 108), most=16, priority=1))
    computed: dict[str, int] = {}
    for work in run(s):
        for name, tokens in work.items():
            computed[name] = computed.get(name, 0) + tokens
    assert computed["r2"] == 8 + 15 and computed["r1"] > 8 + 15


def test_a_request_as_large_as_the_pool_runs_alone(new: Arrivals) -> None:
    s = scheduler(pages=10)
    for start in (0, 100):
        s.add_request(new(range(start, start + 20), most=20))
    run(s)
    assert s.cache.num_available_pages == 10


def test_least_recently_used_prefixes_are_evicted_and_pinned_ones_never(new: Arrivals) -> None:
    s = scheduler(pages=12)
    s.add_request(new(range(16), most=1))
    s.add_request(new(range(100, 116), most=1))
    run(s)
    s.add_request(new(range(16), most=30))
    step(s)
    s.add_request(new(range(200, 220), most=1))
    step(s)
    assert s.cache.evicted_pages == 2
    s.add_request(new(range(100, 116), most=1))
    assert step(s)["r5"] == 8, "r2's last two pages are gone, and r3's are still there"


@pytest.mark.parametrize("eviction", [lru, lfu, slru])
def test_who_uses_the_beginning_of_a_sequence_does_not_keep_the_rest_of_it(
    new: Arrivals, eviction: Eviction
) -> None:
    s = scheduler(pages=12, eviction=eviction)
    for start in (0, 100):
        s.add_request(new(range(start, start + 17), most=1))
        run(s)
    s.add_request(new([*range(4), 500], most=1))
    run(s)
    s.add_request(new(range(200, 226), most=1))
    run(s)
    assert s.cache.match_prefix(new(range(17))) == 4, "what r3 came back to; the rest was used longest ago"
    assert s.cache.match_prefix(new(range(100, 117))) == 16


def test_what_a_request_of_higher_priority_used_is_evicted_later(new: Arrivals) -> None:
    s = scheduler(pages=12, eviction=priority)
    s.add_request(new(range(16), most=1, priority=1))
    s.add_request(new(range(100, 116), most=1))
    run(s)
    s.add_request(new(range(200, 229), most=1))
    run(s)
    s.add_request(new(range(17), most=1))
    s.add_request(new(range(100, 117), most=1))
    assert run(s) == [{"r4": 1, "r5": 17}], "r1's was used longer ago than r2's, and is still there"


def test_what_continues_a_valued_prefix_is_worth_no_more_than_its_own_request(new: Arrivals) -> None:
    s = scheduler(pages=12, eviction=priority)
    s.add_request(new(range(9), most=1, priority=7))
    run(s)
    s.add_request(new([*range(8), *range(300, 309)], most=1))
    s.add_request(new(range(100, 109), most=1, priority=1))
    run(s)
    s.add_request(new(range(200, 233), most=1))
    run(s)
    assert s.cache.match_prefix(new([*range(8), *range(300, 309)])) == 8
    assert s.cache.match_prefix(new(range(100, 109))) == 4


def test_aborting_frees_a_request_wherever_it_is(new: Arrivals) -> None:
    s = scheduler(batch=8, running=2)
    requests = [new(range(start, start + 12), most=5) for start in (0, 100, 200)]
    for request in requests:
        s.add_request(request)
    step(s)
    for request in requests:
        s.finish_request(request)
        s.check()
    assert s.cache.num_available_pages == 100
    assert not s.running and not s.waiting
    s.finish_request(requests[0])


def test_clearing_the_cache_frees_every_page(new: Arrivals) -> None:
    s = scheduler()
    s.add_request(new(range(20)))
    run(s)
    assert s.cache.pool.num_free < 100
    s.cache.reset_prefix_cache()
    assert s.cache.pool.num_free == 100
    s.add_request(new(range(20)))
    assert step(s) == {"r2": 20}


def test_a_request_that_does_not_fit_yet_does_not_use_its_prefix(new: Arrivals) -> None:
    s = scheduler(pages=12)
    s.add_request(new(range(8), most=1))
    s.add_request(new(range(100, 108), most=1))
    run(s)
    s.add_request(new(range(200, 216), most=20))
    step(s)
    hits = {node: node.hits for node in s.cache._tree.nodes()}
    order = list(s.cache._tree._queue._segments[0])
    s.add_request(new([*range(8), *range(300, 328)], most=1))
    for _ in range(3):
        assert step(s) == {"r3": 1} and s.waiting
    assert order == list(s.cache._tree._queue._segments[0])
    assert hits.items() <= {node: node.hits for node in s.cache._tree.nodes()}.items()


@pytest.mark.parametrize(
    "prompt",
    [
        pytest.param(range(300, 400), id="nothing is cached of it"),
        pytest.param([*range(8), *range(300, 400)], id="it leaves an edge in the middle"),
        pytest.param([*range(16), *range(300, 400)], id="it goes on where a sequence ended"),
        pytest.param(range(9), id="its prompt ends in the middle of an edge"),
        pytest.param(range(17), id="its prompt ends where a sequence ended"),
    ],
)
def test_waiting_costs_the_same_however_long_the_prompt_is(
    new: Arrivals, prompt: Iterable[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    s = scheduler(running=1)
    s.add_request(new(range(17), most=1))
    run(s)
    s.add_request(new(range(200, 210), most=9))
    s.add_request(waits := new(prompt, most=1, priority=-1))
    step(s)
    key, match, walks = waits.key, waits.match, []
    walk = s.cache._tree._descend
    monkeypatch.setattr(
        s.cache._tree, "_descend", lambda node, *rest: walks.append(node) or walk(node, *rest)
    )
    for _ in range(5):
        step(s)
    assert waits.key is key and len(key) == 4 * (len(waits.tokens) - 1)
    assert not walks or match.length == 0, "a walk from a root ends at its first step"


def test_a_waiting_request_sees_what_comes_and_what_goes(new: Arrivals) -> None:
    s = scheduler(running=1)
    s.add_request(new(range(24), most=20))
    step(s)
    s.add_request(waits := new([*range(24), *[1] * 30], most=1, priority=-1))
    seen = []
    for _ in range(15):
        step(s)
        seen.append(s.cache.match_prefix(waits))
    assert seen[0] == 24 and seen[-1] == 36 and seen == sorted(seen), "an edge that grows is followed"
    s.finish_request(next(iter(s.running.values())))
    s.cache.reset_prefix_cache()
    assert s.cache.match_prefix(waits) == 0
    run(s)


def test_looking_at_a_long_queue_is_bounded(new: Arrivals) -> None:
    s = scheduler(running=2)
    for start in range(600):
        s.add_request(new(range(start * 10, start * 10 + 8), most=1))
    assert len(run(s)) == 300
