"""The numbers of a live page, from two expositions."""

import pytest

from radixway.core.telemetry import MetricsScrape, ScrapeDelta, read_gateway_stats, read_worker_stats

EARLIER = """
# TYPE radixway_requests counter
radixway_requests_total{surface="openai.chat",model="m",status="200"} 10
radixway_requests_total{surface="openai.chat",model="m",status="503"} 1
radixway_tokens_total{worker="a:1",model="m",policy="p",kind="completion"} 100
radixway_prefix_prompt_tokens_total{worker="a:1",model="m",policy="p",by="reported"} 1000
radixway_prefix_cached_tokens_total{worker="a:1",model="m",policy="p",by="reported"} 0
radixway_breaker{worker="a:1"} 0
radixway_breaker{worker="b:1"} 0
"""
LATER = """
# TYPE radixway_requests counter
radixway_requests_total{surface="openai.chat",model="m",status="200"} 30
radixway_requests_total{surface="openai.chat",model="m",status="503"} 2
radixway_requests_total{surface="openai.chat",model="m",status="429"} 9
radixway_worker_requests_total{worker="a:1",model="m",policy="p",outcome="answered"} 40
radixway_worker_kv_usage_ratio{worker="a:1"} 0.25
radixway_tokens_total{worker="a:1",model="m",policy="p",kind="completion"} 600
radixway_tokens_total{worker="a:1",model="m",policy="p",kind="prompt"} 2000
radixway_prefix_prompt_tokens_total{worker="a:1",model="m",policy="p",by="reported"} 2000
radixway_prefix_cached_tokens_total{worker="a:1",model="m",policy="p",by="reported"} 800
radixway_prefix_prompt_tokens_total{worker="a:1",model="m",policy="p",by="predicted"} 100
radixway_prefix_cached_tokens_total{worker="a:1",model="m",policy="p",by="predicted"} 90
llm_cache_hits_total 1
llm_cache_misses_total 3
radixway_guard_actions_total{guard="jailbreak",action="block"} 20
radixway_guard_actions_total{guard="pii",action="report"} 20
# TYPE radixway_time_to_first_token_seconds histogram
radixway_time_to_first_token_seconds_bucket{worker="a:1",model="m",policy="p",le="0.1"} 10
radixway_time_to_first_token_seconds_bucket{worker="a:1",model="m",policy="p",le="+Inf"} 10
radixway_in_flight 3
radixway_queued 2
radixway_workers 2
radixway_workers_ready 1
radixway_breaker{worker="a:1"} 0
radixway_breaker{worker="b:1"} 1
"""
CHANGE = ScrapeDelta(MetricsScrape.parse_text(EARLIER, 100), MetricsScrape.parse_text(LATER, 110))


def test_figures_are_rates_shares_and_the_state_at_the_end():
    figures = read_gateway_stats(CHANGE)
    assert figures.at == 110
    assert figures.requests_per_s == 3.0
    assert figures.errors_per_s == 0.1
    assert figures.blocked_per_s == 2
    assert (figures.prompt_tokens_per_s, figures.completion_tokens_per_s) == (200, 50)
    assert figures.first_token_p50_s == pytest.approx(0.05)
    assert figures.between_tokens_p50_s is None
    assert figures.reported_hits == 0.8
    assert figures.predicted_hits == 0.9
    assert figures.semantic_hits == 0.25
    assert (figures.in_flight, figures.queued, figures.ready, figures.workers) == (3, 2, 1, 2)


def test_a_worker_that_did_nothing_has_figures_too():
    workers = read_worker_stats(CHANGE)
    assert set(workers) == {"a:1", "b:1"}
    assert workers["a:1"].requests_per_s == 4
    assert workers["a:1"].completion_tokens_per_s == 50
    assert workers["a:1"].kv_usage == 0.25
    assert workers["a:1"].reported_hits == 0.8
    assert workers["b:1"].requests_per_s == 0
    assert workers["b:1"].kv_usage is None
    assert workers["b:1"].reported_hits is None


def test_nothing_at_all_makes_no_figure_up():
    figures = read_gateway_stats(ScrapeDelta(MetricsScrape(0, {}), MetricsScrape(1, {})))
    assert figures.requests_per_s == 0
    assert figures.reported_hits is figures.semantic_hits is figures.first_token_p95_s is None
