"""Decisions in numbers, under the published names. Label values are of the configuration and of the head."""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from typing import TYPE_CHECKING

from prometheus_client import Gauge

from radixway.semantics.decisions.reasoning_mode import (
    BY_RULE,
    WITHOUT_DISTRIBUTION,
    ReasoningDecision,
    entropy_band,
)
from radixway.semantics.signals.domain import normalized_entropy

if TYPE_CHECKING:
    from radixway.core.telemetry import MetricsRegistry
    from radixway.semantics.decisions.decision_plan import DecisionPlan
    from radixway.semantics.decisions.request_rewrite import AppliedDecision

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1)
_SHARES = tuple(tenth / 10 for tenth in range(11))
_BITS = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
_UNKNOWN = "unknown"


class DecisionMetrics:
    """Counted once per request whose model is left to the gateway."""

    def __init__(self, metrics: MetricsRegistry) -> None:
        counter, histogram = metrics.counter, metrics.histogram
        self._categories = Gauge(  # a counter's name would end in _total
            "llm_category_classifications_count",
            "Requests by the category that they were found to be of",
            ["category"],
            registry=metrics.registry,
            multiprocess_mode="sum",
        )
        self._modifications = counter(
            "llm_model_routing_modifications",
            "Requests sent to another model than they named",
            *("source_model", "target_model"),
        )
        self._reasons = counter(
            "llm_routing_reason_codes", "Decisions by why they were made", "reason_code", "model"
        )
        self._thinking = counter(
            "llm_reasoning_decisions",
            "Decisions on whether a model is to think",
            *("category", "model", "enabled", "effort"),
        )
        self._templates = counter(
            "llm_reasoning_template_usage",
            "Requests in which a family's parameter for thinking was set, on or off",
            *("family", "param"),
        )
        self._efforts = counter(
            "llm_reasoning_effort_usage", "Requests given an effort, by family", "family", "effort"
        )
        self._by_entropy = counter(
            "llm_entropy_classification_decisions",
            "Decisions on thinking by how unsure the domain was",
            *("uncertainty_level", "reasoning_enabled", "decision_reason", "top_category"),
        )
        self._without = counter(
            "llm_entropy_fallback_usage",
            "Decisions on thinking made without a domain's distribution",
            *("fallback_reason", "fallback_strategy"),
        )
        self._entropies = histogram(
            "llm_entropy_values",
            "Shannon entropy of domains' distributions, in bits",
            _BITS,
            *("category", "classification_type"),
        )
        self._confidences = histogram(
            "llm_classification_confidence",
            "How sure a request's category was",
            _SHARES,
            *("category", "classification_method"),
        )
        self._classifiers = histogram(
            "llm_classifier_latency_seconds",
            "Seconds that reading signals of a kind took, the encoder's waiting included",
            _SECONDS,
            "classifier",
        )
        self._routing = histogram(
            "llm_model_routing_latency_seconds", "Seconds from a question to the decision on it", _SECONDS
        )

    def observe_decision(self, plan: DecisionPlan, seconds: float) -> None:
        """Record a decision and the `seconds` it took to find."""
        verdict, reasoning = plan.verdict, plan.reasoning
        category = verdict.category or _UNKNOWN
        self._routing().observe(seconds)
        for kind, took_s in plan.signals.latencies_s.items():
            self._classifiers(kind).observe(took_s)
        self._categories.labels(category).inc()
        if verdict.category is not None:
            method = verdict.reason.partition(":")[0].removesuffix("_overrides")
            self._confidences(category, method).observe(verdict.confidence)
        model = plan.choice.best.model if plan.choice is not None else _UNKNOWN
        self._reasons(verdict.reason, model).inc()
        if reasoning.reason in WITHOUT_DISTRIBUTION:
            self._without("no_distribution", reasoning.reason).inc()
        elif reasoning.reason != BY_RULE and verdict.distribution:
            self._count_entropy(verdict.distribution, reasoning)

    def _count_entropy(self, distribution: Mapping[str, float], reasoning: ReasoningDecision) -> None:
        top = max(distribution, key=distribution.__getitem__)
        entropy = normalized_entropy(distribution)
        self._by_entropy(entropy_band(entropy), _boolean(reasoning.on), reasoning.reason, top).inc()
        self._entropies(top, "entropy_based").observe(entropy * log2(len(distribution)))

    def count_applied(self, plan: DecisionPlan, applied: AppliedDecision, source: str) -> None:
        """Count a decision that was applied to a request that had named the model `source`."""
        if applied.model != source:
            self._modifications(source, applied.model).inc()
        effort = applied.effort or ""
        category = applied.category or _UNKNOWN
        self._thinking(category, applied.model, _boolean(applied.reasoning), effort).inc()
        section = plan.snapshot.section
        family = section.family_of(applied.model)
        if family is not None and applied.sets_reasoning:
            name = section.models[applied.model].reasoning_family or _UNKNOWN
            self._templates(name, family.parameter).inc()
            if effort:
                self._efforts(name, effort).inc()


def _boolean(claim: bool) -> str:
    return "true" if claim else "false"
