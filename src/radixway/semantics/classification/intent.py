"""One text: its domain, every signal, and the decision that a request with it would get."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from radixway.core.pipeline import ModelStates
from radixway.semantics.decisions.decision_plan import DecisionPlan, SelectionPreferences, make_plan
from radixway.semantics.decisions.score_feedback import ScoreFeedback
from radixway.semantics.decisions.signal_reader import SignalReader
from radixway.semantics.decisions.snapshot import SemanticSnapshot
from radixway.semantics.decisions.verdict import DecisionVerdict, MissingSignals, judge_signals
from radixway.semantics.signals.base import DomainValue, SignalSet, SignalValue
from radixway.semantics.signals.question import question_in

HIGH_CONFIDENCE = 0.7
"""From which a category is said to be sure, where the caller names no threshold; as published."""


@dataclass(frozen=True, slots=True)
class TextIntent:
    """A text's classification."""

    snapshot: SemanticSnapshot
    domain: DomainValue | None
    """What the domain head says, in the configuration's categories; None where there is none."""
    signals: SignalSet
    """All that can be read."""
    verdict: DecisionVerdict
    """The verdict by the signals that a request would read."""
    plan: DecisionPlan | None
    """None where a rule blocks."""

    @property
    def model(self) -> str | None:
        """The model that `auto` would be answered by; None where a rule blocks or no model is configured."""
        choice = None if self.plan is None else self.plan.choice
        return None if choice is None else choice.best.model

    def routing_decision(self, threshold: float | None) -> str:
        """Return the published routing decision: whether the category is sure enough for its specialist, or
        a rule blocks."""
        if self.plan is None:
            return "blocked_by_rule"
        min_confidence = HIGH_CONFIDENCE if threshold is None else threshold
        sure = self.domain is not None and self.domain.confidence >= min_confidence
        return "high_confidence_specialized" if sure else "low_confidence_general"

    def matched_signals(self) -> dict[str, list[str]]:
        """Names of the signals that matched, by kind; kinds without any are left out."""
        found: dict[str, list[str]] = {}
        for kind in self.signals.latencies_s:
            names = [
                signal.name or str(signal.value)
                for signal in self.signals.signals_of(kind)
                if _has_match(signal)
            ]
            if names:
                found[kind] = list(dict.fromkeys(names))
        return found

    def decision_summary(self) -> dict[str, Any]:
        """Return the fused decision, in words and figures."""
        verdict, plan = self.verdict, self.plan
        entry: dict[str, Any] = {
            "action": verdict.action,
            "category": verdict.category,
            "confidence": verdict.confidence,
            "reason": verdict.reason,
            "rule": verdict.rule_name,
            "model": self.model,
        }
        if plan is not None:
            entry |= {"reasoning": plan.reasoning.on, "reasoning_reason": plan.reasoning.reason}
            if plan.choice is not None and plan.choice.best.tier is not None:
                entry["tier"] = plan.choice.best.tier
        if (difficulty := verdict.difficulty) is not None:
            entry |= {f"difficulty_{name}": value for name, value in difficulty.explain().items()}
        return entry

    def explain(self) -> dict[str, Any]:
        """Return every signal and candidate, and why the winner won; no text."""
        entry: dict[str, Any] = {"signals": self.signals.explain()}
        if self.plan is not None:
            entry = self.plan.explain() | entry
        return entry


async def read_intent(
    text: str, snapshot: SemanticSnapshot, reader: SignalReader, states: ModelStates, feedback: ScoreFeedback
) -> TextIntent:
    """Decide as for a request for `auto`, then read what the decision did not need.

    Reads the text more than once unless it is awaited within `EncodeOnceMiddleware`.
    """
    question = question_in(text)
    decided, verdict, failed = await reader.read_signals(
        snapshot, question, partial(judge_signals, snapshot.rules)
    )
    plan = None
    if verdict.action == "route":
        wish = SelectionPreferences.usual(snapshot.section)
        plan = make_plan(snapshot, question, decided, verdict, wish, states, feedback, tuple(failed))
    every, _, _ = await reader.read_signals(snapshot, question, _require_all_kinds(snapshot))
    return TextIntent(snapshot, every.domain, every, verdict, plan)


def _require_all_kinds(snapshot: SemanticSnapshot) -> Callable[[SignalSet], bool | MissingSignals]:
    """Return a check that all kinds were read."""

    def ask(signals: SignalSet) -> bool | MissingSignals:
        unread = frozenset(kind for kind in snapshot.detectors if not signals.has_kind(kind))
        return MissingSignals(unread) if unread else True

    return ask


def _has_match(signal: SignalValue) -> bool:
    """Return whether a signal matched, rather than being an ever-present figure."""
    return signal.matched and (bool(signal.name) or signal.kind in ("domain", "language"))
