"""Two scrapes turned into rates, as Prometheus would have it."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.exposition import generate_latest

from radixway.core.telemetry import InvalidMetricsError, MetricsScrape, ScrapeDelta, ScrapeHistory


class Server:
    """Metrics as a server publishes them."""

    def __init__(self):
        self.registry = CollectorRegistry()
        self.requests = Counter("requests", "Requests", ["model", "status"], registry=self.registry)
        self.seconds = Histogram(
            "seconds", "Seconds", ["model"], buckets=(0.1, 0.2, 0.4, 1), registry=self.registry
        )

    def scrape(self, at: float) -> MetricsScrape:
        return MetricsScrape.parse_text(generate_latest(self.registry).decode(), at)


def test_totals_are_taken_over_the_series_that_have_the_labels():
    server = Server()
    server.requests.labels("a", "200").inc(3)
    server.requests.labels("a", "500").inc()
    server.requests.labels('b "quoted"\n', "200").inc(2)
    scrape = server.scrape(0)
    assert scrape.total("requests_total") == 6
    assert scrape.total("requests_total", model="a") == 4
    assert scrape.total("requests_total", model="a", status="500") == 1
    assert scrape.total("requests_total", model="nobody") == 0
    assert scrape.totals_by("model", "requests_total", status="200") == {"a": 3, 'b "quoted"\n': 2}
    assert scrape.total("other_total") == 0


def test_rates_are_growth_by_seconds_and_a_new_series_began_at_nothing():
    server = Server()
    server.requests.labels("a", "200").inc(100)
    earlier = server.scrape(10)
    server.requests.labels("a", "200").inc(5)
    server.requests.labels("b", "200").inc(15)
    change = ScrapeDelta(earlier, server.scrape(15))
    assert change.increase("requests_total") == 20
    assert change.rate("requests_total") == 4
    assert change.rate("requests_total", model="a") == 1
    assert change.rates_by("model", "requests_total") == {"a": 1, "b": 3}


def test_a_counter_that_fell_has_begun_anew():
    before, after = Server(), Server()
    before.requests.labels("a", "200").inc(100)
    after.requests.labels("a", "200").inc(6)
    assert ScrapeDelta(before.scrape(0), after.scrape(2)).rate("requests_total") == 3


def test_quantiles_lie_within_buckets_and_tell_of_the_time_in_between_alone():
    server = Server()
    for _ in range(1000):
        server.seconds.labels("a").observe(0.9)
    earlier = server.scrape(0)
    for value in (0.05, 0.15, 0.15, 0.3):
        server.seconds.labels("a").observe(value)
    change = ScrapeDelta(earlier, server.scrape(1))
    assert change.quantile(0.5, "seconds") == pytest.approx(0.15)
    assert change.quantile(0.25, "seconds") == pytest.approx(0.1)
    assert change.quantile(1, "seconds") == pytest.approx(0.4)
    assert change.mean("seconds") == pytest.approx(0.65 / 4)
    server.seconds.labels("b").observe(50)
    assert (
        ScrapeDelta(earlier, server.scrape(1)).quantile(0.99, "seconds", model="b") == 1
    )  # beyond what is told apart


def test_where_nothing_was_observed_there_is_no_quantile():
    server = Server()
    server.seconds.labels("a").observe(0.3)
    change = ScrapeDelta(server.scrape(0), server.scrape(1))
    assert change.quantile(0.5, "seconds") is None
    assert change.quantile(0.5, "others") is None
    assert change.mean("seconds") is None


def test_two_scrapes_at_one_instant_have_a_rate_all_the_same():
    server = Server()
    assert ScrapeDelta(server.scrape(1), server.scrape(1)).rate("requests_total") == 0


def test_the_window_moves_and_no_more_is_kept_than_it_needs():
    server, scrapes = Server(), ScrapeHistory(window_s=10)
    assert scrapes.delta_over_window() is None
    assert scrapes.latest is None
    for second in range(100):
        server.requests.labels("a", "200").inc(second)
        scrapes.add_scrape(server.scrape(second))
    change = scrapes.delta_over_window()
    assert (change.earlier.at, change.later.at) == (89, 99)
    assert change.increase("requests_total") == sum(range(90, 100))
    assert len(scrapes) == 11
    scrapes.forget_scrapes()
    assert scrapes.delta_over_window() is None


def test_numbers_that_nobody_counted_are_left_out():
    scrape = MetricsScrape.parse_text("a 1e308\na 1\nb +Inf\nc NaN\nd -Inf\n", 0)
    assert [scrape.total(name) for name in "abcd"] == [1, 0, 0, 0]


@pytest.mark.parametrize(
    "text",
    ["<html>", "{}", '{"error": {"a": 1}}', "a b c d", 'x{a="} 1', 'x_bucket{le="wide"} 1', "\0", "x"],
)
def test_what_is_no_exposition_is_refused_in_words(text):
    with pytest.raises(InvalidMetricsError, match="no Prometheus exposition"):
        MetricsScrape.parse_text(text, 0)
