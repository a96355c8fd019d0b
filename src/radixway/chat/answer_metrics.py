"""Metrics and log lines of answers: of which model, how they ended, how long they took.

The published overview's names (8.1, 8.2), with tokens and the time to the first one. No text of messages.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from statistics import fmean
from typing import TYPE_CHECKING, Any

from radixway.core.telemetry import MetricsRegistry

if TYPE_CHECKING:  # SQLAlchemy is installed only with chats
    from radixway.chat.completion_hooks import EndedAnswer

log = logging.getLogger(__name__)

OTHER = "other"
"""Replaces a model's name once there are too many: pull workers choose theirs."""
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600)
_LEVELS = {"complete": logging.INFO, "cancelled": logging.INFO, "timeout": logging.WARNING}
_KINDS = {"prompt": "prompt_tokens", "completion": "completion_tokens"}


class AnswerMetrics:
    """Metrics of answers, one set per gateway."""

    def __init__(self, metrics: MetricsRegistry, *, max_models: int = 100) -> None:
        """`max_models`: names with a label of their own."""
        self._max_models = max_models
        self._models: set[str] = set()
        self._requests = metrics.counter(
            "inference_requests", "Answers that ended, by how", "model", "status"
        )
        self._latency = metrics.histogram(
            "inference_latency_seconds",
            "Seconds from requesting an answer to its end, of complete ones",
            _SECONDS,
            "model",
        )
        self._first_token = metrics.histogram(
            "inference_time_to_first_token_seconds",
            "Seconds from requesting an answer to its first token",
            _SECONDS,
            "model",
        )
        self._tokens = metrics.counter("inference_tokens", "Tokens, as workers counted them", "model", "kind")
        self.active_workers: Callable[[], Iterable[tuple[str, float]]] = tuple
        """Workers that are connected to fetch jobs, by model."""
        self.sharing: Callable[[], Iterable[tuple[str, float]]] = tuple
        """Whether each connection to other processes works, 1 or 0 by name."""
        self.look: Callable[[], Awaitable[None]] | None = None
        """Awaited before each scrape: updates `depths`."""
        self.depths: dict[str, int] = {}
        self.jobs: dict[str, tuple[int, float]] = {}
        """How many jobs of answers there are, and how old the oldest is, by state."""
        self.gpus: Callable[[], Iterable[tuple[str, float]]] = tuple
        """GPU utilization of workers that report it, by model."""
        self.histories: dict[str, int] = {}
        """Lookups of threads, by outcome."""
        metrics.counters(
            "radixway_chat_histories",
            "Threads of chats, by whether they were cached",
            "outcome",
            lambda: self.histories.items(),
        )
        metrics.before.append(self._refresh)
        metrics.gauges(
            "radixway_chat_sharing",
            "Whether notifications between processes of chats work: 1, or 0",
            "over",
            lambda: self.sharing(),
            "min",
        )
        metrics.gauges(
            "inference_active_workers",
            "Workers that are connected to fetch chats' jobs",
            "model",
            lambda: self._sum_by_label(self.active_workers()),
            "max",
        )
        metrics.gauges(
            "radixway_chat_gpu_utilisation_ratio",
            "GPU utilization of workers connected to fetch chats' jobs, where they report it",
            "model",
            lambda: self._average_by_label(self.gpus()),
            "max",
        )
        metrics.gauges(
            "radixway_chat_jobs",
            "Jobs of answers, in the whole database",
            "state",
            lambda: [(state, many) for state, (many, _) in self.jobs.items()],
            "max",
        )
        metrics.gauges(
            "radixway_chat_oldest_job_seconds",
            "Age of the oldest of them",
            "state",
            lambda: [(state, age_s) for state, (_, age_s) in self.jobs.items()],
            "max",
        )
        metrics.gauges(
            "inference_queue_depth",
            "Answers that wait for a worker, in the whole database",
            "model",
            lambda: self._sum_by_label(self.depths.items()),
            "max",
        )

    def record_end(self, answer: EndedAnswer) -> None:
        """Count an `answer` whose end was committed, and log it."""
        model = self._bounded_label(answer.model or OTHER)
        self._requests(model, answer.state.value).inc()
        took_s = max(answer.work_end_at - answer.created_at, 0.0)
        if answer.state == "complete":
            self._latency(model).observe(took_s)
        if answer.first_token_at is not None:
            self._first_token(model).observe(max(answer.first_token_at - answer.created_at, 0.0))
        counted = {kind: _usage_count(answer.usage, name) for kind, name in _KINDS.items()}
        for kind, tokens in counted.items():
            self._tokens(model, kind).inc(tokens)
        log.log(
            _LEVELS.get(answer.state.value, logging.ERROR),
            "answer %s: %s after %.1f s, %d tokens, %s",
            answer.id,
            answer.state.value,
            took_s,
            counted["completion"],
            "the gateway's own workers" if answer.worker_id is None else f"worker {answer.worker_id}",
        )

    async def _refresh(self) -> None:
        if self.look is not None:
            await self.look()

    def _bounded_label(self, model: str) -> str:
        if model not in self._models and len(self._models) >= self._max_models:
            return OTHER
        self._models.add(model)
        return model

    def _average_by_label(self, values: Iterable[tuple[str, float]]) -> Iterable[tuple[str, float]]:
        by_label: dict[str, list[float]] = {}
        for model, value in values:
            by_label.setdefault(self._bounded_label(model), []).append(value)
        return [(label, fmean(ratios)) for label, ratios in by_label.items()]

    def _sum_by_label(self, values: Iterable[tuple[str, float]]) -> Iterable[tuple[str, float]]:
        by_label: dict[str, float] = {}
        for model, value in values:
            label = self._bounded_label(model)
            by_label[label] = by_label.get(label, 0.0) + value
        return by_label.items()


def _usage_count(usage: dict[str, Any] | None, name: str) -> int:
    count = (usage or {}).get(name)
    return count if isinstance(count, int) and 0 < count < 10**9 else 0
