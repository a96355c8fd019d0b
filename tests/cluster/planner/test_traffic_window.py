"""Sums over short times add up to those over longer ones."""

import random

import pytest

from radixway.cluster.planner.traffic_window import RatioHistogram, TrafficWindow, estimate_demand
from support.planned_traffic import traffic


def test_percentiles_of_a_histogram_are_near_those_of_its_values():
    draw = random.Random(1)
    values = sorted(draw.lognormvariate(6, 1) for _ in range(5000))
    histogram = RatioHistogram()
    for value in values:
        histogram.add_value(value)
    for share in (0.1, 0.5, 0.9, 0.99):
        assert histogram.find_percentile(share) == pytest.approx(values[int(share * 5000) - 1], rel=0.05)
    assert histogram.mean == pytest.approx(sum(values) / 5000)


def test_equal_values_have_no_variability_and_an_empty_histogram_no_percentile():
    histogram = RatioHistogram()
    assert histogram.find_percentile(0.5) is None
    assert histogram.variability == 0
    for _ in range(7):
        histogram.add_value(300)
    assert histogram.variability == pytest.approx(0)


def test_a_demand_is_that_of_all_its_parts():
    demand = estimate_demand([traffic(2), traffic(4, prompt=4000, cached=3000, output=300)], 0.9)
    assert demand.requests_per_s == pytest.approx(3)
    assert demand.uncached_tokens == pytest.approx(1000)
    assert demand.output_tokens == pytest.approx((10 * 100 + 20 * 300) / 30)
    assert demand.context_tokens == pytest.approx((10 * 1000 + 20 * 4000) / 30 + demand.output_tokens / 2)


def test_pairs_count_the_cached_tokens_that_a_prefill_attends_to():
    whole, rest = TrafficWindow(), TrafficWindow()
    whole.on_placed(1000, 1000)
    rest.on_placed(1000, 100)
    assert whole.pairs == 1000 * 999 // 2
    assert rest.pairs == 100 * 900 + 100 * 99 // 2


def test_arrivals_in_bursts_are_told_from_steady_ones():
    steady = estimate_demand([traffic(2)] * 12, 0.9)
    bursts = estimate_demand([traffic(8), *[TrafficWindow(5.0)] * 3] * 3, 0.9)
    assert steady.burstiness == 1
    assert bursts.requests_per_s == steady.requests_per_s
    assert bursts.burstiness > 10


def test_answers_whose_first_token_nobody_saw_tell_nothing_of_the_time_between_tokens():
    seen = TrafficWindow(5.0)
    seen.on_finished(100, None)
    assert seen.itl_s is None
    assert seen.output_tokens == 100
