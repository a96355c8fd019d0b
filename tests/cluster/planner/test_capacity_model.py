"""What the closed form says of a fleet, beside what the simulated engines do."""

from math import inf

import pytest

from radixway.cluster.planner.capacity_model import CapacityModel
from radixway.cluster.planner.dry_run import to_engine_constants
from radixway.cluster.planner.traffic_window import TrafficWindow, estimate_demand
from radixway.core.config import LeastLoadedPolicyConfig, ProfileConfig
from radixway.core.config.scale import ObjectiveConfig
from radixway.routing.simulator import SimulationSettings, compute_figures
from radixway.routing.simulator.simulation import TraceSimulation
from support.planned_traffic import trace

PROFILE = ProfileConfig()


def demand(per_s, **more):
    seen = TrafficWindow(100.0)
    for request in trace(lambda _: per_s, 100, **more).requests:
        seen.on_arrival()
        seen.on_placed(request.input_tokens, request.input_tokens)
        seen.on_finished(request.output_tokens, 1.0)
    return estimate_demand([seen], 0.9)


@pytest.mark.parametrize(("per_s", "prompt", "output"), [(4, 2000, 100), (12, 2000, 100), (8, 500, 500)])
def test_it_agrees_with_the_simulator(per_s, prompt, output):
    replayed = trace(lambda _: per_s, 300, prompt=prompt, output=output)
    setting = SimulationSettings(workers=3, constants=to_engine_constants(PROFILE))
    outcome = TraceSimulation(replayed, LeastLoadedPolicyConfig(), setting).run_trace()
    told = CapacityModel(PROFILE, ObjectiveConfig()).expect_latency(
        demand(per_s, prompt=prompt, output=output), 3
    )
    assert told.itl_s == pytest.approx(compute_figures(outcome).itl_mean_s, rel=0.25)
    ttft_s = sorted(outcome.ttft_s)[int(len(outcome.ttft_s) * 0.9)]
    assert told.ttft_s == pytest.approx(ttft_s, rel=0.5)


def test_more_replicas_are_never_slower():
    capacity = CapacityModel(PROFILE, ObjectiveConfig())
    for role in ("any", "prefill", "decode"):
        told = [capacity.expect_latency(demand(20), replicas, role) for replicas in range(1, 12)]
        assert [each.ttft_s for each in told] == sorted((each.ttft_s for each in told), reverse=True)
        assert [each.itl_s for each in told] == sorted((each.itl_s for each in told), reverse=True)


def test_a_fleet_that_cannot_keep_up_is_infinitely_late():
    told = CapacityModel(PROFILE, ObjectiveConfig()).expect_latency(demand(40), 1)
    assert told.ttft_s == told.itl_s == inf
    assert told.utilization > 1


def test_the_need_is_the_fewest_replicas_that_hold_the_objective():
    capacity = CapacityModel(PROFILE, ObjectiveConfig(ttft_s=1.0, itl_s=0.03))
    need = capacity.find_need(demand(20), "any", 1, 20)
    assert need.reachable
    assert need.expected.ttft_s <= 1.0
    assert need.expected.itl_s <= 0.03
    fewer = capacity.expect_latency(demand(20), need.replicas - 1)
    assert fewer.ttft_s > 1.0 or fewer.itl_s > 0.03


def test_an_objective_out_of_reach_asks_for_no_more_than_helps():
    need = CapacityModel(PROFILE, ObjectiveConfig(ttft_s=0.05)).find_need(demand(20), "any", 1, 1000)
    assert not need.reachable
    assert need.replicas < 30


def test_roles_are_bound_by_their_own_half_of_the_objective():
    lenient, strict = ObjectiveConfig(itl_s=1.0), ObjectiveConfig(itl_s=0.0095)
    of = demand(8, output=400)
    needs = {
        role: [CapacityModel(PROFILE, each).find_need(of, role, 1, 50).replicas for each in (lenient, strict)]
        for role in ("prefill", "decode")
    }
    assert needs["prefill"][0] == needs["prefill"][1]
    assert needs["decode"][0] < needs["decode"][1]


def test_a_small_kv_cache_needs_more_replicas_to_decode():
    small = ProfileConfig(kv_tokens=20_000)
    of = demand(8, output=400)
    objective = ObjectiveConfig()
    roomy = CapacityModel(PROFILE, objective).find_need(of, "decode", 1, 50)
    assert CapacityModel(small, objective).find_need(of, "decode", 1, 50).replicas > roomy.replicas
