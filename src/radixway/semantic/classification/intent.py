"""One text: its domain, every signal, and the decision that a request with it would get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from radixway.pipeline import ModelStates
from radixway.semantic.decide import Missing, Verdict, judge
from radixway.semantic.plan import Plan, Wish, make_plan
from radixway.semantic.question import Question
from radixway.semantic.reading import Reader
from radixway.semantic.scores import Feedback
from radixway.semantic.signals.base import Domain, Signal, Signals
from radixway.semantic.snapshot import Snapshot

HIGH_CONFIDENCE = 0.7
"""From which a category is said to be sure, where the caller names no threshold; as published."""


@dataclass(frozen=True, slots=True)
class Intent:
    """What a text is taken for."""

    snapshot: Snapshot
    domain: Domain | None
    """What the domain head says, in the configuration's categories; None where there is none."""
    signals: Signals
    """All that can be read."""
    verdict: Verdict
    """From as few signals as a request's would be."""
    plan: Plan | None
    """None where a rule blocks."""

    @property
    def model(self) -> str | None:
        """The model that `auto` would be answered by; None where a rule blocks or no model is configured."""
        choice = None if self.plan is None else self.plan.choice
        return None if choice is None else choice.best.model

    def routing_decision(self, threshold: float | None) -> str:
        """As published: whether the category is sure enough for its specialist; or that a rule blocks."""
        if self.plan is None:
            return "blocked_by_rule"
        least = HIGH_CONFIDENCE if threshold is None else threshold
        sure = self.domain is not None and self.domain.confidence >= least
        return "high_confidence_specialized" if sure else "low_confidence_general"

    def matched(self) -> dict[str, list[str]]:
        """Names of the signals that matched, by kind; kinds without any are left out."""
        found: dict[str, list[str]] = {}
        for kind in self.signals.latencies_s:
            names = [signal.name or str(signal.value) for signal in self.signals.of(kind) if _says(signal)]
            if names:
                found[kind] = list(dict.fromkeys(names))
        return found

    def decision(self) -> dict[str, Any]:
        """The fused decision, in words and figures."""
        verdict, plan = self.verdict, self.plan
        told: dict[str, Any] = {
            "action": verdict.action,
            "category": verdict.category,
            "confidence": verdict.confidence,
            "reason": verdict.reason,
            "rule": verdict.rule.name if verdict.rule else None,
            "model": self.model,
        }
        if plan is not None:
            told |= {"reasoning": plan.reasoning.on, "reasoning_reason": plan.reasoning.reason}
        return told

    def explain(self) -> dict[str, Any]:
        """Every signal and candidate, and why the winner won; no text."""
        told: dict[str, Any] = {"signals": self.signals.explain()}
        if self.plan is not None:
            told = self.plan.explain() | told
        return told


async def read_intent(
    text: str, snapshot: Snapshot, reader: Reader, states: ModelStates, feedback: Feedback
) -> Intent:
    """Decide as for a request for `auto`, then read what the decision did not need.

    Reads the text more than once unless it is awaited within `OnePass`.
    """
    question = Question(text, text)
    decided, verdict, failed = await reader.read(snapshot, question, partial(judge, snapshot.rules))
    plan = None
    if verdict.action == "route":
        wish = Wish(snapshot.section.preference.default, "", snapshot.section.preference.completion_tokens)
        plan = make_plan(snapshot, question, decided, verdict, wish, states, feedback, tuple(failed))
    every, _, _ = await reader.read(snapshot, question, _everything(snapshot))
    return Intent(snapshot, every.domain, every, verdict, plan)


def _everything(snapshot: Snapshot) -> Callable[[Signals], bool | Missing]:
    """A judge that is content only when all kinds were read."""

    def ask(signals: Signals) -> bool | Missing:
        unread = frozenset(kind for kind in snapshot.detectors if not signals.knows(kind))
        return Missing(unread) if unread else True

    return ask


def _says(signal: Signal) -> bool:
    """Whether a signal matched, rather than being a figure that is always there."""
    return signal.matched and (bool(signal.name) or signal.kind in ("domain", "language"))
