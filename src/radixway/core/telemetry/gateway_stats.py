"""The few numbers that say how a gateway does, from what it published between two scrapes.

`radixway top` and the console's live page show these; which metrics they are made of stands here alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from radixway.core.telemetry.scrapes import ScrapeDelta

_TOKENS = "radixway_tokens_total"
_FIRST_TOKEN = "radixway_time_to_first_token_seconds"
_BETWEEN_TOKENS = "radixway_inter_token_seconds"
_CACHED = "radixway_prefix_cached_tokens_total"
_PROMPTS = "radixway_prefix_prompt_tokens_total"


@dataclass(frozen=True, slots=True)
class GatewayStats:
    """A gateway over a time. None: nothing happened that could be measured."""

    at: float
    """When the time ended, by the reader's monotonic clock."""
    requests_per_s: float
    errors_per_s: float
    """Answered with a status of 500 and more."""
    refused_per_s: float
    """Because workers are busy."""
    blocked_per_s: float
    """By the guard."""
    prompt_tokens_per_s: float
    completion_tokens_per_s: float
    first_token_p50_s: float | None
    first_token_p95_s: float | None
    between_tokens_p50_s: float | None
    between_tokens_p95_s: float | None
    predicted_hits: float | None
    """Share of prompts' tokens that routing expected in the worker's cache."""
    reported_hits: float | None
    """Share of prompts' tokens that workers said they had cached."""
    semantic_hits: float | None
    """Share of the questions that the semantic cache was asked."""
    in_flight: float
    queued: float
    ready: float
    workers: float


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """One worker over the same time."""

    requests_per_s: float
    completion_tokens_per_s: float
    kv_usage: float | None
    """Share of its KV cache that is held, if it says so."""
    reported_hits: float | None


def read_gateway_stats(change: ScrapeDelta) -> GatewayStats:
    """Read from `change` what the gateway did between two scrapes, and how it is by the later one."""
    now, statuses = change.later, change.rates_by("status", "radixway_requests_total")
    return GatewayStats(
        at=now.at,
        requests_per_s=sum(statuses.values()),
        errors_per_s=sum(rate for status, rate in statuses.items() if status.startswith("5")),
        refused_per_s=change.rate("radixway_refused_total"),
        blocked_per_s=change.rate("radixway_guard_actions_total", action="block"),
        prompt_tokens_per_s=change.rate(_TOKENS, kind="prompt"),
        completion_tokens_per_s=change.rate(_TOKENS, kind="completion"),
        first_token_p50_s=change.quantile(0.5, _FIRST_TOKEN),
        first_token_p95_s=change.quantile(0.95, _FIRST_TOKEN),
        between_tokens_p50_s=change.quantile(0.5, _BETWEEN_TOKENS),
        between_tokens_p95_s=change.quantile(0.95, _BETWEEN_TOKENS),
        predicted_hits=_ratio_or_none(
            change.increase(_CACHED, by="predicted"), change.increase(_PROMPTS, by="predicted")
        ),
        reported_hits=_ratio_or_none(
            change.increase(_CACHED, by="reported"), change.increase(_PROMPTS, by="reported")
        ),
        semantic_hits=_ratio_or_none(
            hits := change.increase("llm_cache_hits_total"),
            hits + change.increase("llm_cache_misses_total"),
        ),
        in_flight=now.total("radixway_in_flight"),
        queued=now.total("radixway_queued"),
        ready=now.total("radixway_workers_ready"),
        workers=now.total("radixway_workers"),
    )


def read_worker_stats(change: ScrapeDelta) -> dict[str, WorkerStats]:
    """Read from `change` the statistics of each worker, by its name."""
    requests = change.rates_by("worker", "radixway_worker_requests_total")
    completion = change.rates_by("worker", _TOKENS, kind="completion")
    cached = change.rates_by("worker", _CACHED, by="reported")
    prompts = change.rates_by("worker", _PROMPTS, by="reported")
    usage = change.later.totals_by("worker", "radixway_worker_kv_usage_ratio")
    return {
        worker: WorkerStats(
            requests_per_s=requests.get(worker, 0.0),
            completion_tokens_per_s=completion.get(worker, 0.0),
            kv_usage=usage.get(worker),
            reported_hits=_ratio_or_none(cached.get(worker, 0.0), prompts.get(worker, 0.0)),
        )
        for worker in change.later.totals_by("worker", "radixway_breaker") | requests
    }


def _ratio_or_none(part: float, whole: float) -> float | None:
    return part / whole if whole else None
