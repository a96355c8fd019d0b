"""The planner as Ray Serve's policy, through Ray's own configuration and with Ray's own context."""

import pytest
from ray.serve._private.common import DeploymentID
from ray.serve.config import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy

from radixway.cluster.planner import RayPolicy
from radixway.cluster.planner.ray_autoscaler import IN_HAND

EVERY_S = 10.0


class Deployment:
    """What Serve's controller keeps of a deployment that it scales."""

    def __init__(self, policy, **config):
        self.config = AutoscalingConfig(
            min_replicas=1, max_replicas=20, target_ongoing_requests=4, policy=policy, **config
        )
        made = self.config.policy.get_policy()
        self.policy = made(**policy.policy_kwargs) if isinstance(made, type) else made
        self.state, self.now, self.replicas = {}, 1000.0, 1

    def tick(self, in_hand, times=1, reported=None):
        for _ in range(times):
            self.now += EVERY_S
            context = AutoscalingContext(
                deployment_id=DeploymentID(name="engine"),
                deployment_name="engine",
                app_name="default",
                current_num_replicas=self.replicas,
                target_num_replicas=self.replicas,
                running_replicas=[],
                total_num_requests=in_hand,
                total_queued_requests=0.0,
                aggregated_metrics=reported,
                raw_metrics={},
                capacity_adjusted_min_replicas=1,
                capacity_adjusted_max_replicas=20,
                policy_state=self.state,
                last_scale_up_time=None,
                last_scale_down_time=None,
                current_time=self.now,
                config=self.config,
            )
            self.replicas, self.state = self.policy(context)
        return self.replicas


@pytest.fixture(params=["radixway.cluster.planner.ray_policy", "radixway.cluster.planner:ray_policy"])
def function(request):
    return AutoscalingPolicy(policy_function=request.param)


def test_the_function_is_found_by_ray_as_a_dotted_path_and_follows_the_load(function):
    deployment = Deployment(function)
    assert deployment.tick(3) == 1
    assert deployment.tick(30) == 8


def test_it_lets_nobody_go_before_the_patience_is_over(function):
    deployment = Deployment(function)
    deployment.tick(30)
    assert deployment.tick(1, times=29) == 8
    assert deployment.tick(1, times=60) < 8


def test_ray_s_most_replicas_hold(function):
    assert Deployment(function).tick(10_000) == 20


def test_ray_s_most_replicas_hold_for_the_class_too_unless_it_is_given_others():
    """The planner's own limit would stop a deployment of up to twenty at sixteen."""
    dotted, kwargs = "radixway.cluster.planner.RayPolicy", {"forecast": "constant"}
    assert Deployment(AutoscalingPolicy(policy_function=dotted, policy_kwargs=kwargs)).tick(10_000) == 20
    kwargs = {"forecast": "constant", "max_replicas": 3}
    assert Deployment(AutoscalingPolicy(policy_function=dotted, policy_kwargs=kwargs)).tick(10_000) == 3


def test_what_engines_report_counts_where_requests_pass_ray_by():
    deployment = Deployment(AutoscalingPolicy(policy_function="radixway.cluster.planner.ray_policy"))
    assert deployment.tick(0, reported={IN_HAND: {"a": 9.0, "b": 11.0}}) == 5
    assert deployment.tick(0, reported={IN_HAND: {}}) == 5


def test_as_a_class_it_takes_the_keys_of_the_planner():
    kwargs = {
        "forecast": "constant",
        "interval_s": 30,
        "scale_down_patience_s": 0,
        "objective": {"itl_s": 0.02},
        "profile": {"step_s": 0.01, "decode_s": 0.001, "context_s": 0, "startup_s": 30},
        "max_replicas": 6,
        "context_tokens": 3000,
    }
    policy = AutoscalingPolicy(policy_function="radixway.cluster.planner.RayPolicy", policy_kwargs=kwargs)
    deployment = Deployment(policy)
    assert deployment.tick(35) == 4  # ten at a time keep the objective
    assert deployment.tick(900) == 6


def test_a_rising_load_is_met_before_it_has_come():
    policy = AutoscalingPolicy(
        policy_function="radixway.cluster.planner.RayPolicy",
        policy_kwargs={"interval_s": 60, "profile": {"startup_s": 120}, "forecast": "holt"},
    )
    deployment = Deployment(policy)
    for minute in range(12):
        replicas = deployment.tick(4 * minute, times=6)
    assert replicas > 11


def test_a_key_that_the_planner_does_not_have_is_named():
    with pytest.raises(ValueError, match="colour"):
        RayPolicy(colour="red")
