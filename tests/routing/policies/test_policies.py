"""What each policy prefers, and that it says why."""

import random

import pytest

from radixway.core.config import RoutingConfig, parse_policy
from radixway.routing import RoutingRequest, Selector
from radixway.routing.block_index import StorageTier
from support.routing_requests import Clock, prompt, workers


class Fleet:
    """A selector with some workers, and the clock they live by."""

    def __init__(self, policy, count=3):
        self.clock = Clock()
        self.workers = workers(count)
        self.selector = Selector(RoutingConfig(policy=policy), clock=self.clock, rng=random.Random(0))
        for worker in self.workers:
            self.selector.add_worker(worker)

    def pick(self, request):
        return self.selector.select_worker(request, self.workers)

    def send(self, request, to=None):
        return self.selector.reserve(
            self.selector.select_worker(request, self.workers if to is None else [self.workers[to]])
        )

    def pick_and_release(self, request):
        choice = self.pick(request)
        self.selector.reserve(choice).release()
        return choice.worker

    def kept_chars(self, number):
        """What `prefix_affinity` keeps of a worker, as the explanation shows it."""
        scores = self.pick(ask("anything")).scores
        return dict(zip(scores.terms, scores.parts[number], strict=True))["kept_chars"]

    def keep_busy(self, number, times):
        return [self.selector.ledger.reserve(self.workers[number]) for _ in range(times)]


def ask(text, **fields):
    return RoutingRequest(tokens=len(text), text=text, **fields)


class TestSession:
    def test_a_session_stays_while_it_lives_and_is_hashed_anew_after_that(self):
        fleet = Fleet("session:ttl_s=60")
        request = RoutingRequest(session="s")
        hashed = fleet.pick(request).worker
        other = next(worker for worker in fleet.workers if worker is not hashed)
        fleet.selector.reserve(fleet.selector.select_worker(request, [other]))
        assert fleet.pick(request).worker is other
        assert fleet.pick(request).scores.reason == "bound"
        fleet.clock.now += 61
        assert fleet.pick(request).worker is hashed

    def test_a_session_moves_only_if_its_worker_is_no_candidate(self):
        fleet = Fleet("session", 4)
        homes = {}
        for number in range(100):
            request = RoutingRequest(session=str(number))
            choice = fleet.pick(request)
            fleet.selector.reserve(choice).release()
            homes[str(number)] = choice.worker
        gone = fleet.workers.pop()
        fleet.selector.remove_worker(gone)
        for session, home in homes.items():
            if home is not gone:
                assert fleet.pick(RoutingRequest(session=session)).worker is home

    def test_what_clients_call_their_sessions_is_not_kept(self):
        fleet = Fleet("session")
        for number in range(10):
            name = str(number) * 1_000_000
            fleet.selector.reserve(fleet.pick(RoutingRequest(session=name)))
        kept = fleet.selector.policy_for_model(None)._bindings._bound
        assert len(kept) == 10 and max(map(len, kept)) <= 16

    def test_two_gateways_that_share_nothing_agree(self):
        one, other = Fleet("session"), Fleet("session")
        for number in range(50):
            request = RoutingRequest(session=f"chat-{number}")
            assert one.pick(request).worker.name == other.pick(request).worker.name

    def test_without_a_session_load_decides(self):
        fleet = Fleet("session", 2)
        fleet.keep_busy(0, 3)
        assert fleet.pick(RoutingRequest()).worker is fleet.workers[1]


class TestStickyLeastLoaded:
    def test_a_new_session_goes_where_least_is_in_hand_then_where_the_fewest_sessions_are(self):
        fleet = Fleet("sticky_least_loaded")
        fleet.keep_busy(0, 1)
        fleet.send(RoutingRequest(session="a"), to=1).release()
        choice = fleet.pick(RoutingRequest(session="b"))
        assert choice.worker is fleet.workers[2]
        assert choice.scores.reason == "new session"
        assert choice.scores.parts == [(1, 0), (0, 1), (0, 0)]

    def test_many_sessions_weigh_less_than_one_request(self):
        fleet = Fleet("sticky_least_loaded", 2)
        for number in range(10):
            fleet.send(RoutingRequest(session=str(number)), to=0).release()
        fleet.keep_busy(1, 1)
        assert fleet.pick(RoutingRequest(session="new")).worker is fleet.workers[0]

    def test_sessions_that_come_while_all_are_idle_are_spread(self):
        fleet = Fleet("sticky_least_loaded", 4)
        homes = [fleet.pick_and_release(RoutingRequest(session=str(number))) for number in range(40)]
        assert [homes.count(worker) for worker in fleet.workers] == [10] * 4

    def test_a_session_stays_until_its_worker_is_busier_by_more_than_the_margin(self):
        fleet = Fleet("sticky_least_loaded:break_margin=2", 2)
        request = RoutingRequest(session="s")
        fleet.send(request, to=0).release()
        fleet.keep_busy(0, 2)
        assert fleet.pick(request).worker is fleet.workers[0]
        assert fleet.pick(request).scores.reason == "bound"
        fleet.keep_busy(0, 1)
        choice = fleet.pick(request)
        assert choice.worker is fleet.workers[1]
        assert choice.scores.reason == "its worker is too busy"

    def test_a_session_that_moved_stays_where_it_moved_to(self):
        fleet = Fleet("sticky_least_loaded:break_margin=2", 2)
        request = RoutingRequest(session="s")
        fleet.send(request, to=0).release()
        busy = fleet.keep_busy(0, 3)
        fleet.send(request).release()
        for lease in busy:
            lease.release()
        choice = fleet.pick(request)
        assert (choice.worker, choice.scores.reason) == (fleet.workers[1], "bound")

    def test_among_many_requests_a_few_more_break_no_bond(self):
        fleet = Fleet("sticky_least_loaded:break_margin=2:break_ratio=1.25", 2)
        request = RoutingRequest(session="s")
        fleet.send(request, to=0).release()
        fleet.keep_busy(0, 125)
        fleet.keep_busy(1, 100)
        assert fleet.pick(request).worker is fleet.workers[0]
        fleet.keep_busy(0, 1)
        assert fleet.pick(request).worker is fleet.workers[1]

    def test_without_a_margin_no_bond_is_broken_for_load(self):
        fleet = Fleet({"name": "sticky_least_loaded", "break_margin": None}, 2)
        request = RoutingRequest(session="s")
        fleet.send(request, to=0).release()
        fleet.keep_busy(0, 1000)
        assert fleet.pick(request).worker is fleet.workers[0]

    def test_a_session_whose_worker_is_no_candidate_moves(self):
        fleet = Fleet("sticky_least_loaded", 2)
        request = RoutingRequest(session="s")
        fleet.send(request, to=0).release()
        choice = fleet.selector.select_worker(request, fleet.workers[1:])
        assert (choice.worker, choice.scores.reason) == (fleet.workers[1], "its worker cannot answer")

    def test_a_finished_session_is_free_at_once_and_counts_no_more(self):
        fleet = Fleet("sticky_least_loaded", 2)
        request = RoutingRequest(session="s")
        fleet.send(request, to=0).release()
        assert fleet.selector.end_session("s")
        assert not fleet.selector.end_session("s")
        choice = fleet.pick(request)
        assert choice.scores.reason == "new session"
        assert choice.scores.parts == [(0, 0), (0, 0)]

    def test_a_session_is_forgotten_with_its_time_and_with_its_worker(self):
        fleet = Fleet("sticky_least_loaded:ttl_s=60", 2)
        fleet.send(RoutingRequest(session="s"), to=0).release()
        fleet.clock.now += 61
        assert fleet.pick(RoutingRequest(session="s")).scores.reason == "new session"
        fleet.send(RoutingRequest(session="s"), to=0).release()
        fleet.selector.remove_worker(fleet.workers[0])
        assert fleet.pick(RoutingRequest(session="s")).scores.reason == "new session"

    def test_a_request_without_a_session_goes_where_least_is_in_hand_and_binds_nothing(self):
        fleet = Fleet("sticky_least_loaded", 2)
        fleet.keep_busy(0, 1)
        fleet.send(RoutingRequest()).release()
        choice = fleet.pick(RoutingRequest())
        assert (choice.worker, choice.scores.reason) == (fleet.workers[1], "no session")
        assert choice.scores.parts == [(1, 0), (0, 0)]

    def test_a_session_finishes_under_every_policy_that_knows_it(self):
        config = RoutingConfig(policy="session", model_policies={"m": "sticky_least_loaded"})
        selector, fleet = Selector(config), workers(1)
        for model in (None, "m"):
            request = RoutingRequest(session="s", model=model)
            selector.reserve(selector.select_worker(request, fleet)).release()
        assert selector.end_session("s")
        reasons = [
            selector.select_worker(RoutingRequest(session="s", model=model), fleet).scores.reason
            for model in (None, "m")
        ]
        assert reasons == ["hashed", "new session"]


class TestPrefixAffinity:
    LONG = "a long system prompt that many requests have in common. " * 20

    def test_a_known_beginning_goes_where_it_was(self):
        fleet = Fleet("prefix_affinity")
        fleet.send(ask(self.LONG + "one"), to=2).release()
        choice = fleet.pick(ask(self.LONG + "two"))
        assert choice.worker is fleet.workers[2]
        assert choice.scores.reason == "prefix"

    def test_a_short_match_goes_to_the_smallest_cache(self):
        fleet = Fleet("prefix_affinity:match_rate_threshold=0.5")
        for number, times in enumerate((3, 1, 2)):
            for turn in range(times):
                fleet.send(ask(f"{number}{turn}" + self.LONG), to=number).release()
        choice = fleet.pick(ask("00" + "something else entirely" * 40))
        assert choice.worker is fleet.workers[1]
        assert choice.scores.reason == "smallest cache"

    def test_unbalanced_queues_switch_affinity_off(self):
        fleet = Fleet("prefix_affinity:imbalanced_threshold=2")
        fleet.send(ask(self.LONG), to=0)
        fleet.keep_busy(0, 3)
        choice = fleet.pick(ask(self.LONG))
        assert choice.scores.reason == "imbalanced"
        assert choice.worker is not fleet.workers[0]

    def test_an_empty_prompt_is_no_error(self):
        fleet = Fleet("prefix_affinity")
        fleet.send(ask(self.LONG)).release()
        assert fleet.pick(ask("")).scores.reason == "no prefix data"

    def test_eviction_keeps_to_its_threshold_target_and_interval(self):
        fleet = Fleet(
            "prefix_affinity:do_eviction=true:eviction_threshold_chars=1000:eviction_target_chars=500", 1
        )
        fleet.send(ask("")).release()  # the first look; the next is 10 s later
        for number in range(30):
            fleet.send(ask(f"{number:02}" + "x" * 98)).release()
        assert fleet.kept_chars(0) > 1000
        fleet.clock.now += 10
        fleet.send(ask("last")).release()
        assert fleet.kept_chars(0) <= 504

    def test_memory_is_bounded_without_eviction_too(self):
        fleet = Fleet("prefix_affinity:max_chars=500", 1)
        for number in range(100):
            fleet.send(ask(f"{number:02}" + "x" * 98)).release()
        assert 400 < fleet.kept_chars(0) <= 500

    def test_names_and_defaults_are_the_guides(self):
        assert parse_policy("prefix_affinity").model_dump(exclude={"max_chars"}) == {
            "name": "prefix_affinity",
            "imbalanced_threshold": 10,
            "match_rate_threshold": 0.1,
            "do_eviction": False,
            "eviction_threshold_chars": 400_000,
            "eviction_target_chars": 360_000,
            "eviction_interval_secs": 10,
        }


class TestKvAware:
    def test_the_cost_is_dynamos(self):
        fleet = Fleet("kv_aware:overlap_weight=2", 2)
        fleet.send(
            prompt(1, 2, 3, 4, tokens=64), to=0
        )  # nothing cached: 64 tokens to prefill, 4 blocks in use
        choice = fleet.pick(prompt(1, 2, 9, 10, tokens=64))
        assert choice.scores.terms == ("cached_blocks", "prefill_blocks", "decode_blocks")
        assert choice.scores.parts == [(2, (64 + 64) / 16 - 2, 4 + 2), (0, 4, 4)]
        assert choice.scores.costs == [2 * 6 + 6, 2 * 4 + 4]

    def test_slower_tiers_count_for_less(self):
        fleet = Fleet("kv_aware", 3)
        for number, tier in enumerate(StorageTier):
            fleet.selector.index.set_followed(number, True)
            fleet.selector.index.add_blocks(number, [1, 2, 3, 4], tier)
        assert [parts[0] for parts in fleet.pick(prompt(1, 2, 3, 4)).scores.parts] == [4, 3, 1]

    def test_a_weight_of_nothing_leaves_load_alone(self):
        fleet = Fleet("kv_aware:overlap_weight=0", 2)
        fleet.send(prompt(1, 2, 3), to=0)
        assert fleet.pick(prompt(1, 2, 3, 4, 5)).worker is fleet.workers[1]


class TestExpectedTime:
    def test_a_long_prefix_is_worth_a_short_queue_and_no_longer_one(self):
        fleet = Fleet("expected_time", 2)
        blocks = range(100)
        fleet.send(prompt(*blocks), to=0).release()
        fleet.selector.ledger.reserve(fleet.workers[0], prompt(stream=True), 800)
        assert fleet.pick(prompt(*blocks)).worker is fleet.workers[0]
        fleet.selector.ledger.reserve(fleet.workers[0], prompt(stream=True), 1600)
        assert fleet.pick(prompt(*blocks)).worker is fleet.workers[1]

    def test_running_answers_are_spared(self):
        fleet = Fleet("expected_time", 2)
        for lease in fleet.keep_busy(0, 5):
            lease.mark_prefill_done()
        assert fleet.pick(prompt(*range(50))).worker is fleet.workers[1]

    def test_a_slow_worker_gets_less(self):
        fleet = Fleet("expected_time", 2)
        for number, per_token in enumerate((1e-4, 4e-4)):
            for tokens in range(200, 1200, 50):
                lease = fleet.selector.ledger.reserve(fleet.workers[number], prompt(stream=True), tokens)
                fleet.clock.now += tokens * per_token
                lease.mark_prefill_done()
                lease.release()
        picked = [fleet.send(prompt(1000 + n, tokens=1000)) and None for n in range(10)]
        assert len(picked) == 10
        fast, slow = (worker.load.requests for worker in fleet.workers)
        assert fast > 2 * slow

    def test_a_newcomer_is_warmed_by_what_is_cold_and_by_what_others_make_wait(self):
        fleet = Fleet("expected_time", 2)
        shared = tuple(range(20))
        for number in range(20):
            fleet.send(prompt(*shared, 100 + number)).release()
        fleet.workers.append(workers(3)[2])
        fleet.selector.add_worker(fleet.workers[2])
        for number in range(30):
            fleet.send(prompt(*shared, 200 + number, stream=True))
        assert fleet.workers[2].load.requests >= 4


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("kv_aware:overlap_weight=-1", "overlap_weight"),
        ("kv_aware:overlap_weight=inf", "overlap_weight"),
        ("expected_time:slowdown=inf", "slowdown"),
        ("kv_aware:overlap=1", "overlap"),
        ("kv_aware:overlap_weight", "key=value"),
        ("kv_aware:overlap_weight=1:overlap_weight=2", "each once"),
        ("fastest", "fastest"),
        ("prefix_affinity:match_rate_threshold=2", "match_rate_threshold"),
        ("", "policy"),
    ],
)
def test_a_policy_that_cannot_be_is_refused_in_words(text, named):
    with pytest.raises(ValueError, match=named):
        parse_policy(text)
