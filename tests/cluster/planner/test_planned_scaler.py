"""A simulated fleet that does what the planner proposes, through a day of a quarter of an hour.

Far harder than a day: `benchmarks/planner.py` says what is held at the pace of an hour.
"""

import math

import pytest

from radixway.cluster.planner.capacity_model import CapacityModel
from radixway.cluster.planner.dry_run import PlannedScaler, measure_attainment, to_engine_constants
from radixway.cluster.planner.elastic_simulation import ElasticSimulation
from radixway.cluster.planner.forecast import find_forecast
from radixway.cluster.planner.traffic_window import TrafficWindow, estimate_demand
from radixway.core.config import LeastLoadedPolicyConfig, PlannerConfig, ProfileConfig
from radixway.core.config.scale import ObjectiveConfig
from radixway.routing.simulator import SimulationSettings
from support.planned_traffic import trace

SECONDS, PEAK = 900, 14.0
OBJECTIVE = ObjectiveConfig(ttft_s=2.0, ttft_percentile=0.9, itl_s=0.05)
CONFIG = PlannerConfig(
    objective=OBJECTIVE,
    profile=ProfileConfig(prefill_s=0.0004, startup_s=15),
    forecast="holt",
    forecast_share=0.95,
    interval_s=15,
    scale_down_patience_s=30,
    max_replicas=30,
)


def day(at):
    """From the trough, a sixth of the peak, to the peak and back."""
    return PEAK * (7 - 5 * math.cos(2 * math.pi * at / SECONDS)) / 12


@pytest.fixture(scope="module")
def followed():
    """What became of the fleet, and how many replicas its peak needs."""
    load = trace(day, SECONDS, prompt=1200, output=30)
    peak = TrafficWindow(30.0)
    for request in load.requests:
        if abs(request.at - SECONDS / 2) < 15:
            peak.on_arrival()
            peak.on_placed(request.input_tokens, request.input_tokens)
            peak.on_finished(request.output_tokens, None)
    needed = (
        CapacityModel(CONFIG.profile, OBJECTIVE)
        .find_need(estimate_demand([peak], 0.9), "any", 1, 30)
        .replicas
    )
    scaler = PlannedScaler(CONFIG, find_forecast(CONFIG.forecast))
    setting = SimulationSettings(workers=needed, constants=to_engine_constants(CONFIG.profile))
    simulation = ElasticSimulation(load, LeastLoadedPolicyConfig(), setting, scaler, CONFIG.profile.startup_s)
    growth = simulation.run_elastic()
    simulation.check()
    assert len(growth.served) == len(load.requests)
    return growth, needed


def test_the_objective_is_held_in_most_of_the_day(followed):
    growth, _ = followed
    assert measure_attainment(growth, OBJECTIVE, 30).attained_share >= 0.85


def test_it_takes_fewer_replicas_than_the_peak_needs_all_day(followed):
    growth, needed = followed
    assert growth.replica_s / SECONDS <= 0.85 * needed


def test_replicas_follow_the_load_up_and_down(followed):
    growth, _ = followed
    counts = {round(at): count for at, count in growth.decisions}
    assert counts[450] > 1.5 * counts[150]
    assert counts[450] > 1.5 * counts[890]
