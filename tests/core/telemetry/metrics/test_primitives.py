"""Counts and histograms of the hot path, as Prometheus reads them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram
from prometheus_client.exposition import generate_latest

from radixway.core.telemetry.metrics.primitives import SECONDS, LabeledCounter, LabeledHistogram


@given(st.lists(st.floats(0, 1000) | st.sampled_from(SECONDS)))
def test_a_histogram_is_what_prometheus_clients_own_would_be(values: list[float]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    distribution = LabeledHistogram("seconds", "Some", ("who",))
    ours.register(distribution)
    histogram = Histogram("seconds", "Some", ["who"], buckets=SECONDS, registry=theirs)
    distribution.with_labels("a"), histogram.labels("a")
    for value in values:
        distribution.with_labels("a").observe_value(value)
        histogram.labels("a").observe(value)
    read = [line for line in generate_latest(theirs).splitlines() if b"_created" not in line]
    assert sorted(generate_latest(ours).splitlines()) == sorted(read)


def test_values_below_zero_have_no_sum_which_could_fall() -> None:
    registry = CollectorRegistry()
    distribution = LabeledHistogram("error_ratio", "Some", bounds=(-1.0, 0.0, 1.0))
    registry.register(distribution)
    for value in (-0.5, 0.0, 7.0):
        distribution.with_labels().observe_value(value)
    assert [
        registry.get_sample_value("error_ratio_bucket", {"le": le}) for le in ("-1.0", "0.0", "+Inf")
    ] == [
        0,
        2,
        3,
    ]
    assert registry.get_sample_value("error_ratio_sum") is None


def test_what_is_forgotten_is_told_nobody_even_where_it_is_still_counted() -> None:
    registry = CollectorRegistry()
    tally = LabeledCounter("things", "Some", ("worker",))
    registry.register(tally)
    gone, there = tally.with_labels("gone"), tally.with_labels("there")
    tally.remove_labels(lambda labels: labels == ("gone",))
    gone.value += 1
    there.value += 1
    assert registry.get_sample_value("things_total", {"worker": "gone"}) is None
    assert registry.get_sample_value("things_total", {"worker": "there"}) == 1
