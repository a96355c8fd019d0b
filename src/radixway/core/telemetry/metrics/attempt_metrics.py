"""Outcomes of attempts at workers: by worker, model and policy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

from radixway.core.telemetry.metrics.primitives import (
    CounterValue,
    LabeledCounter,
    LabeledHistogram,
    MetricGroup,
)

Outcome = Literal[
    "answered",
    "rejected",
    "unreachable",
    "disconnected",
    "unavailable",
    "truncated",
    "too_large",
    "broken",
    "left",
]
"""How an attempt ended: `rejected` by the worker's own error, which was passed on; then three ways to fail
before the first byte; `truncated` where the worker ended it in order, but not whole, before the first byte or
after; `too_large` where there was more of it than allowed; `broken` off after the first byte; `left` where
its client had left."""

GAPS_S = (0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0, 2.5, 10.0)
_SHARES = (-1.0, -0.75, -0.5, -0.25, -0.1, -0.02, 0.02, 0.1, 0.25, 0.5, 0.75, 1.0)
_BY_WORKER = ("worker", "model", "policy")
_BY = ("predicted", "reported")


class UsagePrediction(msgspec.Struct, gc=False):
    """The tokens that the gateway expected when it chose a worker."""

    prompt_tokens: int
    cached_tokens: int


class AttemptUsage(msgspec.Struct, gc=False):
    """Tokens of an answer, as far as the worker reports them."""

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int | None
    """None where it does not say."""


PriceOf = Callable[[str, int, int], tuple[float, str]]
"""The cost of a prompt and an answer of that model, and its currency; '' where it has no price."""


class AttemptSeries:
    """Counts of one worker, model and policy, found once."""

    def __init__(self, metrics: AttemptMetrics, worker: str, model: str, policy: str) -> None:
        labels = worker, model, policy
        self.model = model
        self.first_token = metrics.first_token.with_labels(*labels)
        self.gaps = metrics.gaps.with_labels(*labels)
        """Gaps between chunks of a stream."""
        self.prediction_errors = metrics.prediction_errors.with_labels(model, policy)
        """By how much of a prompt predictions were off."""
        self._metrics = metrics
        self._labels = labels
        self._prompt, self._cached_prompt, self._completion = (
            metrics.tokens.with_labels(*labels, kind) for kind in ("prompt", "cached", "completion")
        )
        self._prompts = [metrics.prompts.with_labels(*labels, by) for by in _BY]
        """Requests with known cached tokens: predicted, reported."""
        self._cached = [metrics.cached.with_labels(*labels, by) for by in _BY]
        self._outcomes: dict[Outcome, CounterValue] = {}
        self._is_detached = False
        self.own_price_of: PriceOf | None = None
        """A hosted worker's prices, in place of the model's."""

    def record_outcome(self, outcome: Outcome) -> None:
        """Count one attempt by its `outcome`."""
        count = self._outcomes.get(outcome)
        if count is None:
            outcomes = self._metrics.outcomes
            count = CounterValue() if self._is_detached else outcomes.with_labels(*self._labels, outcome)
            self._outcomes[outcome] = count
        count.value += 1

    def detach_series(self) -> None:
        """Remove the worker's series; attempts that still end there do not create them again."""
        self._is_detached = True

    def record_usage(self, spent: AttemptUsage, predicted: UsagePrediction | None) -> None:
        """Count the tokens `spent` on an answer, beside those `predicted`."""
        prompt, completion, cached = spent.prompt_tokens, spent.completion_tokens, spent.cached_tokens
        self._prompt.value += prompt
        self._completion.value += completion
        if predicted is not None:
            self._prompts[0].value += predicted.prompt_tokens
            self._cached[0].value += predicted.cached_tokens
        if cached is not None and prompt:
            self._cached_prompt.value += cached
            self._prompts[1].value += prompt
            self._cached[1].value += cached
            if predicted is not None:
                self.prediction_errors.observe_value((min(predicted.cached_tokens, prompt) - cached) / prompt)
        price_of = self.own_price_of or self._metrics.price_of
        if price_of is None:
            return
        cost, currency = price_of(self.model, prompt, completion)
        if currency:
            self._metrics.cost.with_labels(self.model, currency).value += cost


class AttemptMetrics(MetricGroup):
    """Workers come and go: one that has gone takes its series along."""

    def __init__(self) -> None:
        self.outcomes = LabeledCounter(
            "radixway_worker_requests", "Attempts at workers, by how they ended", (*_BY_WORKER, "outcome")
        )
        self.first_token = LabeledHistogram(
            "radixway_time_to_first_token_seconds",
            "Seconds from a request's arrival at the gateway to the first event of its stream",
            _BY_WORKER,
        )
        self.gaps = LabeledHistogram(
            "radixway_inter_token_seconds",
            "Seconds between one piece of a stream and the next, as they arrive from the worker",
            _BY_WORKER,
            GAPS_S,
        )
        self.tokens = LabeledCounter(
            "radixway_tokens", "Tokens of prompts and answers, as workers report them", (*_BY_WORKER, "kind")
        )
        self.prompts = LabeledCounter(
            "radixway_prefix_prompt_tokens",
            "Prompt tokens of which it is known how many were cached, by who knows",
            (*_BY_WORKER, "by"),
        )
        self.cached = LabeledCounter(
            "radixway_prefix_cached_tokens",
            "Prompt tokens that were cached, as the gateway predicted and as workers report",
            (*_BY_WORKER, "by"),
        )
        self.prediction_errors = LabeledHistogram(
            "radixway_prefix_prediction_error_ratio",
            "Cached tokens predicted less those reported, as a share of the prompt",
            ("model", "policy"),
            _SHARES,
        )
        self.cost = LabeledCounter(
            "radixway_cost", "What tokens of models with a price cost", ("model", "currency")
        )
        self.price_of: PriceOf | None = None
        """Set where models have prices."""
        self._known: dict[tuple[str, str, str], AttemptSeries] = {}

    def series_for(self, worker: str, model: str, policy: str) -> AttemptSeries:
        """Return the series in which attempts at that worker are counted."""
        labels = worker, model, policy
        series = self._known.get(labels)
        if series is None:
            series = self._known[labels] = AttemptSeries(self, *labels)
        return series

    def forget_worker(self, worker: str) -> None:
        """Drop the series of `worker`, which has left."""
        for counted in (self.outcomes, self.tokens, self.prompts, self.cached):
            counted.remove_labels(lambda labels: labels[0] == worker)
        for measured in (self.first_token, self.gaps):
            measured.remove_labels(lambda labels: labels[0] == worker)
        for labels in [labels for labels in self._known if labels[0] == worker]:
            self._known.pop(labels).detach_series()
