"""Which worker may answer after an update, and which is new enough for a request."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.config import WeightsConfig, WorkerSettings
from radixway.core.pipeline import ENDPOINTS, Request
from radixway.core.telemetry import Journal
from radixway.routing import WeightVersionTracker, WorkerRegistry, WorkerState


class Fleet:
    """Ready workers that have said these versions, and what is kept of them."""

    def __init__(self, *versions, **config):
        self.registry = WorkerRegistry()
        self.weights = WeightVersionTracker(self.registry, WeightsConfig(**config))
        self.doubted = []
        self.weights.on_doubt.append(self.doubted.append)
        self.workers = [self.join(f"http://w{n}", version) for n, version in enumerate(versions)]

    def join(self, url, version):
        """A worker is added, or added again, and probed."""
        worker = self.registry.add_worker(WorkerSettings(url=url))
        self.probed(worker, version)
        return worker

    def probed(self, worker, version):
        self.weights.record_probe(worker, version, since=worker.weight_revision)
        self.weights.apply_staleness(worker)

    def update(self, version, taken, missed=()):
        with self.weights.update_in_progress(version):
            self.weights.record_update(
                {self.workers[n]: version for n in taken}, [self.workers[n] for n in missed], version
            )

    def states(self):
        return [worker.state.value for worker in self.workers]

    def within(self, **limits):
        request = Request(id="r", endpoint=ENDPOINTS["generate"], path="/", journal=Journal("r"), **limits)
        return [self.workers.index(worker) for worker in self.weights.filter_fresh(request, self.workers)]


class TestTheGate:
    def test_without_an_update_any_versions_will_do(self):
        assert Fleet("1", "2", None).states() == ["ready"] * 3

    def test_a_worker_that_missed_the_update_waits_with_the_reason_until_it_has_the_version(self):
        fleet = Fleet("1", "1")
        fleet.update("2", taken=[0], missed=[1])
        assert fleet.states() == ["ready", "stale"]
        assert fleet.workers[1].last_error == "its weights are version '1'; the fleet's are '2'"
        assert fleet.doubted == [fleet.workers[1]]
        fleet.probed(fleet.workers[1], "2")
        assert fleet.states() == ["ready", "ready"]
        assert fleet.workers[1].last_error is None

    def test_a_worker_back_from_the_dead_with_old_weights_waits(self):
        fleet = Fleet("1", "1")
        fleet.update("2", taken=[0, 1])
        fleet.registry.set_state(fleet.workers[1], WorkerState.DOWN)
        fleet.probed(fleet.workers[1], "1")
        assert fleet.states() == ["ready", "stale"]
        fleet.update("3", taken=[0, 1])
        assert fleet.states() == ["ready", "ready"]

    def test_a_worker_added_after_the_update_waits_unless_it_has_the_version(self):
        fleet = Fleet("1")
        fleet.update("2", taken=[0])
        assert fleet.join("http://new", "2").state is WorkerState.READY
        assert fleet.join("http://old", "1").state is WorkerState.STALE

    def test_a_worker_added_again_is_asked_before_it_is_used(self):
        fleet = Fleet("1")
        fleet.update("2", taken=[0])
        fleet.registry.add_worker(WorkerSettings(url="http://w0"))
        assert fleet.states() == ["joining"]
        fleet.probed(fleet.workers[0], "default")
        assert fleet.states() == ["stale"]

    def test_it_opens_when_nothing_is_expected_any_more(self):
        fleet = Fleet("1", "1")
        fleet.update("2", taken=[0])
        fleet.weights.set_expected(None)
        assert fleet.states() == ["ready", "ready"]

    def test_an_update_that_nobody_took_changes_nothing(self):
        fleet = Fleet("1", "1")
        fleet.update("2", taken=[], missed=[0, 1])
        assert fleet.weights.expected is None
        assert fleet.states() == ["ready", "ready"]

    def test_an_update_without_a_version_leaves_what_is_expected(self):
        fleet = Fleet("1", "1")
        fleet.update("2", taken=[0, 1])
        fleet.update(None, taken=[0, 1])
        assert fleet.weights.expected == "2"

    def test_a_worker_that_says_no_version_passes_unless_versions_are_required(self):
        for required, state in ((False, "ready"), (True, "stale")):
            fleet = Fleet("1", None, require_version=required)
            fleet.update("2", taken=[0])
            assert fleet.states() == ["ready", state]

    def test_a_worker_that_says_none_and_missed_an_update_after_it_took_one_waits(self):
        fleet = Fleet("1", None)
        fleet.update("2", taken=[0, 1])
        fleet.update("3", taken=[0], missed=[1])
        fleet.probed(fleet.workers[1], None)
        assert fleet.states() == ["ready", "stale"]

    def test_a_worker_that_says_none_may_be_another_process_once_it_was_down(self):
        fleet = Fleet("1", None, require_version=True)
        fleet.update("2", taken=[0, 1])
        assert fleet.states() == ["ready", "ready"]
        fleet.registry.set_state(fleet.workers[1], WorkerState.DOWN)
        fleet.probed(fleet.workers[1], None)
        assert fleet.states() == ["ready", "stale"]

    def test_while_an_update_is_under_way_either_version_will_do(self):
        fleet = Fleet("1", "1")
        fleet.weights.set_expected("1")
        with fleet.weights.update_in_progress("2"):
            fleet.probed(fleet.workers[0], "2")
            assert fleet.states() == ["ready", "ready"]
        assert fleet.states() == ["stale", "ready"]

    def test_what_was_asked_before_an_update_answered_is_not_believed_after_it(self):
        fleet = Fleet("1")
        asked_at = fleet.workers[0].weight_revision
        fleet.update("2", taken=[0])
        fleet.weights.record_probe(fleet.workers[0], "1", since=asked_at)
        assert fleet.workers[0].weight_version == "2"

    def test_switched_off_it_lets_everybody_pass(self):
        fleet = Fleet("1", "1", gate=False)
        fleet.update("2", taken=[0])
        assert fleet.states() == ["ready", "ready"]


VERSIONS = st.sampled_from(["1", "2", "3", "blue"])
WORKER = st.integers(0, 2)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("update"), st.none() | VERSIONS, st.sets(WORKER)),
        st.tuples(st.just("expect"), st.none() | VERSIONS),
        st.tuples(st.just("probed"), WORKER, st.none() | VERSIONS),
        st.tuples(st.just("died"), WORKER),
        st.tuples(st.just("added again"), WORKER),
        st.tuples(st.just("replied"), WORKER, VERSIONS),
    ),
    max_size=40,
)


@given(STEPS, st.booleans())
def test_whatever_happens_a_ready_worker_that_says_a_version_has_the_expected_one(steps, required):
    fleet = Fleet("1", "1", None, require_version=required)
    for step, *said in steps:
        worker = fleet.workers[said[0]] if step in ("probed", "died", "added again", "replied") else None
        if step == "update":
            version, taken = said
            fleet.update(version, taken, missed=[n for n in range(3) if n not in taken])
        elif step == "expect":
            fleet.weights.set_expected(*said)
        elif step == "probed":
            fleet.probed(worker, said[1])
        elif step == "died":
            fleet.registry.set_state(worker, WorkerState.DOWN)
        elif step == "added again":
            fleet.registry.add_worker(worker.config)
        elif worker.state is WorkerState.READY:
            fleet.weights.record_reply(worker, said[1])
        expected = fleet.weights.expected
        for ready in fleet.registry.candidates(None):
            unknown = ready.weight_version is None and not required
            assert expected is None or unknown or ready.weight_version == expected
        fleet.weights.check()


class TestReplies:
    def test_a_reply_tells_the_version_of_a_worker_that_says_none(self):
        fleet = Fleet(None)
        fleet.weights.record_reply(fleet.workers[0], "3")
        assert fleet.workers[0].weight_version == "3"

    def test_a_reply_of_other_weights_has_a_worker_wait_that_says_none_and_took_no_update(self):
        fleet = Fleet("1", None)
        fleet.update("2", taken=[0])
        fleet.weights.record_reply(fleet.workers[1], "1")
        assert fleet.states() == ["ready", "stale"]

    def test_a_late_reply_of_old_weights_takes_nobody_out_but_has_the_worker_asked(self):
        fleet = Fleet("1")
        fleet.update("2", taken=[0])
        fleet.weights.record_reply(fleet.workers[0], "1")
        assert (fleet.workers[0].weight_version, fleet.states()) == ("2", ["ready"])
        assert fleet.doubted == fleet.workers

    def test_where_nothing_is_expected_replies_only_move_a_worker_forward(self):
        fleet = Fleet("4")
        fleet.weights.record_reply(fleet.workers[0], "5")
        fleet.weights.record_reply(fleet.workers[0], "3")
        assert fleet.workers[0].weight_version == "5"
        assert fleet.doubted == []


class TestLimits:
    def test_without_a_limit_everybody_will_do(self):
        assert Fleet("1", "9", None).within() == [0, 1, 2]

    @pytest.mark.parametrize(("most", "left"), [(0, [3]), (1, [2, 3]), (2, [1, 2, 3]), (100, [0, 1, 2, 3])])
    def test_numbers_count_from_the_newest_as_numbers(self, most, left):
        assert Fleet("8", "9", "10", "11").within(max_staleness=most) == left

    def test_they_count_from_what_is_expected_where_something_is(self):
        fleet = Fleet("8", "9", gate=False)
        fleet.weights.set_expected("12")
        assert fleet.within(max_staleness=3) == [1]

    def test_other_versions_count_by_when_they_were_first_heard_of(self):
        fleet = Fleet("warm", "blue", "amber")
        assert fleet.within(max_staleness=1) == [1, 2]
        assert fleet.within(min_weight_version="blue") == [1, 2]

    def test_a_fleet_that_goes_back_has_its_old_version_as_the_newest(self):
        fleet = Fleet("blue", "amber", gate=False)
        fleet.weights.set_expected("blue")
        assert fleet.within(max_staleness=0) == [0]

    def test_a_least_version_holds_for_numbers_and_for_the_very_same_text(self):
        assert Fleet("8", "9", "10").within(min_weight_version="9") == [1, 2]
        assert Fleet("blue").within(min_weight_version="never heard of") == []

    def test_who_says_no_version_is_not_new_enough_where_versions_are_known(self):
        assert Fleet("1", None).within(max_staleness=5) == [0]
        assert Fleet("1", None).within(min_weight_version="1") == [0]

    def test_where_no_version_is_known_nothing_is_stale_but_nothing_is_new_either(self):
        assert Fleet(None, None).within(max_staleness=0) == [0, 1]
        assert Fleet(None, None).within(min_weight_version="1") == []

    def test_the_order_of_versions_is_bounded_and_the_oldest_count_as_old(self, monkeypatch):
        monkeypatch.setattr("radixway.routing.weight_versions._MAX_VERSIONS", 10)
        fleet = Fleet("first")
        for number in range(50):
            fleet.weights.record_reply(fleet.workers[0], f"v{number}")
        assert len(fleet.weights._arrived) == 10
        assert fleet.weights.version_lag("v3", "v49") == float("inf")
        assert fleet.weights.version_lag("v47", "v49") == 2


@pytest.mark.parametrize(
    ("reply", "version"),
    [
        ({"text": "a", "meta_info": {"weight_version": "7"}}, "7"),
        ({"meta_info": {"weight_version": 7}}, "7"),
        ({"metadata": {"weight_version": "step-7 ü"}}, None),
        ({"text": 'he said "weight_version": "8"', "meta_info": {"weight_version": "7"}}, "7"),
        ({"text": '"weight_version": "8"'}, None),
        ({"meta_info": {"weight_version": None}}, None),
        ({"meta_info": {"weight_version": ""}}, None),
        ([{"meta_info": {"weight_version": "1"}}, {"meta_info": {"weight_version": "2"}}], "1"),
    ],
)
def test_the_version_in_a_reply_is_found_without_decoding_it(reply, version):
    from radixway.routing.transports.worker_responses import find_weight_version

    assert find_weight_version(json.dumps(reply).encode()) == version
