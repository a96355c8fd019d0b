"""Fleets that grow and shrink while a trace is replayed."""

import pytest

from radixway.cluster.planner.elastic_simulation import ElasticSimulation
from radixway.core.config import ExpectedTimePolicyConfig, LeastLoadedPolicyConfig
from radixway.routing.simulator import SimulationSettings
from radixway.routing.simulator.simulation import TraceSimulation
from support.planned_traffic import trace

LOAD = trace(lambda _: 3.0, 120)


class Script:
    """Asks for what it is told to, and notes what it sees."""

    every_s = 5.0

    def __init__(self, *counts):
        self._counts = list(counts)
        self.came_, self.firsts, self.ends = 0, 0, 0
        self.seen = []
        self.traffic = self

    def on_arrival(self):
        self.came_ += 1

    def on_placed(self, prompt_tokens, uncached_tokens):
        assert 0 <= uncached_tokens <= prompt_tokens

    def on_first_token(self, ttft_s):
        assert ttft_s > 0
        self.firsts += 1

    def on_finished(self, output_tokens, decode_s):
        self.ends += 1

    def decide_replicas(self, now, ready, starting):
        self.seen.append((now, len(ready), starting))
        return self._counts.pop(0) if len(self._counts) > 1 else self._counts[0]


def grow(script, workers, startup_s=20.0, policy=None):
    policy = policy or LeastLoadedPolicyConfig()
    simulation = ElasticSimulation(LOAD, policy, SimulationSettings(workers=workers), script, startup_s)
    growth = simulation.run_elastic()
    simulation.check()
    return growth


def test_a_fleet_that_nobody_scales_does_what_a_fixed_one_does():
    growth = grow(Script(2), 2)
    fixed = TraceSimulation(LOAD, LeastLoadedPolicyConfig(), SimulationSettings(workers=2)).run_trace()
    assert sorted(served.ttft_s for served in growth.served) == pytest.approx(sorted(fixed.ttft_s))
    assert growth.replica_s == pytest.approx(2 * LOAD.requests[-1].at)


def test_every_request_is_answered_however_the_fleet_changes():
    for policy in (LeastLoadedPolicyConfig(), ExpectedTimePolicyConfig()):
        script = Script(1, 6, 2, 9, 1, 1, 4, 1, 8, 1)
        assert len(grow(script, 3, 7.0, policy).served) == len(LOAD.requests)
        assert script.came_ == script.firsts == script.ends == len(LOAD.requests)


def test_a_replica_takes_part_only_once_it_has_started():
    script = Script(5)
    grow(script, 1, startup_s=22.0)
    assert [seen for seen in script.seen if seen[0] <= 30] == [
        *((5, 1, 0), (10, 1, 4), (15, 1, 4), (20, 1, 4)),
        *((25, 1, 4), (30, 5, 0)),
    ]


def test_time_in_which_replicas_start_is_paid_for():
    slow, quick = (grow(Script(5), 1, startup_s=s).replica_s for s in (60.0, 0.0))
    assert slow == pytest.approx(quick)
    assert slow > 4 * LOAD.requests[-1].at


def test_one_that_is_no_longer_wanted_before_it_started_is_paid_until_then():
    growth = grow(Script(1, 2, 1), 1, startup_s=60.0)
    assert growth.replica_s == pytest.approx(LOAD.requests[-1].at + 5.0)


def test_more_replicas_answer_sooner():
    few, many = (grow(Script(count), count) for count in (1, 4))
    mean = [sum(served.ttft_s for served in growth.served) for growth in (few, many)]
    assert mean[1] < mean[0]


def test_several_gateways_would_each_scale_the_fleet():
    with pytest.raises(ValueError, match="one gateway"):
        ElasticSimulation(LOAD, LeastLoadedPolicyConfig(), SimulationSettings(gateways=2), Script(1), 1.0)
