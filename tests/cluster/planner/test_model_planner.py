"""How many replicas are proposed, as time goes by."""

import pytest

from radixway.cluster.planner.forecast import find_forecast
from radixway.cluster.planner.model_planner import ModelPlanner, RoleReplicas, ScaleDownStabilizer
from radixway.core.config import PlannerConfig
from radixway.core.config.scale import ObjectiveConfig, PlannedModelConfig
from support.planned_traffic import SECONDS, traffic

CALM = RoleReplicas(ready=4)


def planner(split=False, **keys):
    keys = {"forecast": "constant", "interval_s": 60, "scale_down_patience_s": 120} | keys
    config = PlannerConfig(**keys)
    return ModelPlanner("m", config, find_forecast(config.forecast), split=split)


def looks(planned, seconds, per_s, fleet=CALM, begin=0.0, **more):
    """Look every five seconds with that traffic; the last plan."""
    plan = None
    for step in range(1, round(seconds / SECONDS) + 1):
        fleets = fleet if isinstance(fleet, dict) else {"any": fleet}
        plan = planned.update_plan(begin + step * SECONDS, traffic(per_s, **more), fleets)
    return plan


def test_before_the_first_forecast_nobody_is_let_go():
    plan = looks(planner(), 55, 1)
    assert plan.roles["any"].by_forecast is None
    assert plan.roles["any"].replicas == 4


def test_a_forecast_is_a_floor_under_an_idle_moment():
    plan = looks(planner(), 60, 30, prompt=2000)
    role = plan.roles["any"]
    assert role.by_load == 1
    assert role.by_forecast > 4
    assert role.replicas == role.by_forecast


def test_more_traffic_needs_more_replicas_within_the_limits():
    few, many = (looks(planner(), 60, per_s).roles["any"].by_forecast for per_s in (10, 60))
    assert few < many
    assert looks(planner(max_replicas=3), 60, 60).roles["any"].replicas == 3
    assert looks(planner(min_replicas=9), 60, 1).roles["any"].replicas == 9


def test_cached_prompts_need_fewer_replicas():
    cold = looks(planner(), 60, 30, prompt=4000, output=10)
    warm = looks(planner(), 60, 30, prompt=4000, cached=3500, output=10)
    assert warm.roles["any"].by_forecast < cold.roles["any"].by_forecast


def test_a_queue_adds_replicas_at_once_and_a_calm_one_none():
    planned = planner()
    looks(planned, 60, 5)
    waiting = RoleReplicas(ready=4, prefill_tokens=800_000)
    plan = planned.update_plan(65, traffic(5), {"any": waiting})
    assert plan.roles["any"].pressure > 1
    assert plan.roles["any"].replicas > 4


def test_requests_in_the_gateways_queue_weigh_as_much_as_usual_prompts():
    planned = planner()
    looks(planned, 60, 5, prompt=8000)
    plan = planned.update_plan(65, traffic(5), {"any": RoleReplicas(ready=4, waiting=60)})
    assert plan.roles["any"].replicas > 4


def test_many_that_decode_add_replicas():
    planned = planner(objective=ObjectiveConfig(itl_s=0.02))
    looks(planned, 60, 1)
    assert looks(planned, 30, 1, RoleReplicas(ready=4, decoding=600), 60).roles["any"].replicas > 4


def test_one_burst_that_is_over_at_once_adds_nobody():
    planned = planner()
    looks(planned, 60, 1)
    planned.update_plan(65, traffic(1), {"any": CALM})
    burst = planned.update_plan(70, traffic(1), {"any": RoleReplicas(ready=4, prefill_tokens=150_000)})
    assert burst.roles["any"].pressure < 1


def test_replicas_leave_after_the_patience_and_not_before():
    planned = planner()
    busy = looks(planned, 60, 60).roles["any"].replicas
    assert looks(planned, 60, 1, begin=60).roles["any"].replicas == busy
    after = looks(planned, 180, 1, begin=120).roles["any"].replicas
    assert after < busy


def test_a_day_without_requests_ends_at_the_least():
    planned = planner()
    looks(planned, 60, 60)
    assert looks(planned, 600, 0, begin=60).roles["any"].replicas == 1


def test_nothing_was_ever_asked_and_nothing_is_proposed_but_what_there_is():
    assert looks(planner(), 600, 0).roles["any"].replicas == 4


def test_prefill_and_decode_are_counted_apart():
    fleets = {"prefill": RoleReplicas(ready=2), "decode": RoleReplicas(ready=2)}
    long_prompts = looks(planner(split=True), 60, 20, fleets, prompt=8000, output=20)
    long_answers = looks(planner(split=True), 60, 20, fleets, prompt=200, output=2000)
    assert long_prompts.roles["prefill"].by_forecast > long_prompts.roles["decode"].by_forecast
    assert long_answers.roles["decode"].by_forecast > long_answers.roles["prefill"].by_forecast


def test_slow_first_tokens_teach_it_that_the_profile_promises_too_much():
    planned = planner(objective=ObjectiveConfig(ttft_s=0.4))
    first = looks(planned, 60, 20, ttft_s=0.3)
    later = looks(planned, 600, 20, begin=60, ttft_s=3.0)
    assert later.slowness > first.slowness
    assert later.roles["any"].by_forecast > first.roles["any"].by_forecast


def test_a_model_has_an_objective_of_its_own():
    strict = PlannedModelConfig(objective=ObjectiveConfig(ttft_s=0.2), max_replicas=30)
    usual = looks(planner(), 60, 30).roles["any"].by_forecast
    assert looks(planner(models={"m": strict}), 60, 30).roles["any"].by_forecast > usual


def test_patience_keeps_the_most_that_was_asked_for():
    patience = ScaleDownStabilizer(10)
    asked = [(0, 3), (2, 5), (4, 1), (11, 2), (12, 2), (13, 1), (22, 1), (24, 1)]
    assert [patience.stabilize(now, replicas) for now, replicas in asked] == [3, 5, 5, 5, 2, 2, 1, 1]


@pytest.mark.parametrize("fleet", [RoleReplicas(ready=0), RoleReplicas(ready=0, starting=3)])
def test_a_fleet_that_is_not_there_yet_is_no_reason_to_fail(fleet):
    assert looks(planner(), 120, 5, fleet).roles["any"].replicas >= 1
