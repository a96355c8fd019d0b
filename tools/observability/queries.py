"""Expressions over the metrics of docs/metrics.md, and those that are worked out once for all who ask."""

from __future__ import annotations

from typing import Any

from observability import thresholds as at


def p(quantile: float, histogram: str, by: str = "", over: str = "5m", having: str = "") -> str:
    """A quantile of a histogram, by labels."""
    labels = ", ".join(filter(None, ("le", by)))
    return f"histogram_quantile({quantile}, sum by ({labels}) (rate({histogram}_bucket{having}[{over}])))"


def grown(metric: str, over: str, by: str = "") -> str:
    """How often something happened; 0 where it never has."""
    if by:
        return f"sum by ({by}) (rate({metric}[{over}]))"
    return f"(sum(rate({metric}[{over}])) or vector(0))"


def rate(metric: str, by: str = "", having: str = "") -> str:
    """How often each second, as finely as the viewer's time span allows."""
    return (
        f"sum by ({by}) (rate({metric}{having}[$__rate_interval]))"
        if by
        else f"sum(rate({metric}{having}[$__rate_interval]))"
    )


def q(quantile: float, histogram: str, by: str = "", having: str = "") -> str:
    """A quantile in the viewer's time span."""
    return p(quantile, histogram, by, "$__rate_interval", having)


def quantiles(histogram: str, having: str = "") -> dict[str, str]:
    """Three of them, as queries of a panel."""
    return {
        f"p{name}": q(at, histogram, "", having) for name, at in (("50", 0.5), ("95", 0.95), ("99", 0.99))
    }


def enough(over: str) -> str:
    """Only where there were requests enough for shares to say something."""
    return f"and on () sum(increase(radixway_requests_total[{over}])) >= {at.LEAST_REQUESTS}"


def _share(part: str, of: str, over: str) -> str:
    return f"{grown(part, over)} / sum(rate({of}[{over}]))"


REQUESTS = "radixway_requests_total"

RECORDED: dict[str, str] = {
    "radixway:requests:rate5m": f"sum by (model) (rate({REQUESTS}[5m]))",
    "radixway:errors:ratio5m": _share(f'{REQUESTS}{{status=~"5.."}}', REQUESTS, "5m"),
    "radixway:refused:ratio5m": _share("radixway_refused_total", REQUESTS, "5m"),
    "radixway:retried:ratio5m": _share("radixway_retries_total", REQUESTS, "5m"),
    "radixway:broken:ratio5m": _share("radixway_broken_streams_total", REQUESTS, "5m"),
    "radixway:blocked:ratio15m": _share('radixway_guard_actions_total{action="block"}', REQUESTS, "15m"),
    "radixway:first_byte_seconds:p99_5m": p(0.99, "radixway_first_byte_seconds", "model"),
    "radixway:request_seconds:p99_5m": p(0.99, "radixway_request_seconds", "model"),
    "radixway:selection_seconds:p99_5m": p(0.99, "radixway_selection_seconds"),
    "radixway:understanding_seconds:p99_5m": p(0.99, "llm_model_routing_latency_seconds"),
    "radixway:semantic_hits:ratio1h": (
        "sum(rate(llm_cache_hits_total[1h]))"
        " / (sum(rate(llm_cache_hits_total[1h])) + sum(rate(llm_cache_misses_total[1h])))"
    ),
    "radixway:prefix_hits:ratio1h": (
        "sum by (model, by) (rate(radixway_prefix_cached_tokens_total[1h]))"
        " / sum by (model, by) (rate(radixway_prefix_prompt_tokens_total[1h]))"
    ),
    "radixway:gpu_utilisation:avg30m": (
        "avg by (worker) (avg_over_time(radixway_worker_gpu_utilisation_ratio[30m]))"
        ' or label_join(avg by (Hostname, gpu) (avg_over_time(DCGM_FI_DEV_GPU_UTIL[30m])), "worker", ":", "Hostname", "gpu") / 100'
    ),
    "radixway:chat_failures:ratio15m": (
        '(sum(rate(inference_requests_total{status=~"aborted_by_worker|timeout"}[15m])) or vector(0))'
        " / sum(rate(inference_requests_total[15m]))"
    ),
}
"""What alerts and dashboards have in common, worked out once."""


def recording_group() -> dict[str, Any]:
    """As Prometheus reads them."""
    rules = [{"record": name, "expr": expr} for name, expr in RECORDED.items()]
    return {"name": "radixway-recorded", "rules": rules}
