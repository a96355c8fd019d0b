"""Replays rules before they are applied: on recent requests, by their recorded signals, and on given texts.

Recorded signals still hold where both configurations read them the same way. What the new rules want to know
beyond that only the text could tell, and then the answer is which kinds of signals are missing.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from typing import Any

from radixway.core.config.semantic import SemanticConfig
from radixway.core.pipeline import ENDPOINTS, Endpoint, ModelState, ReceivedRequest
from radixway.core.telemetry import Journal
from radixway.semantics.decisions.decision_plan import (
    DecisionPlan,
    SelectionPreferences,
    make_plan,
    rank_models,
)
from radixway.semantics.decisions.detection import BlockCheck, BlockedDecision
from radixway.semantics.decisions.rule_compiler import (
    collect_categories,
    collect_embeddings,
    collect_keywords,
    collect_regexes,
)
from radixway.semantics.decisions.score_feedback import ScoreFeedback
from radixway.semantics.decisions.signal_reader import SignalReader
from radixway.semantics.decisions.snapshot import SemanticSnapshot
from radixway.semantics.decisions.verdict import DecisionVerdict, MissingSignals, judge_blocks, judge_signals
from radixway.semantics.signals.base import SignalSet, SignalValue
from radixway.semantics.signals.question import question_in

Recorded = DecisionPlan | BlockedDecision | BlockCheck
"""Entries of a journal that can be judged again."""

_NOT_READ_BY = frozenset(
    {"action", "models", "message", "priority", "category", "boost_weight", "description"}
)
"""Fields of a signal rule that have no influence on whether it matches."""


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    """The outcome of a request."""

    model: str | None
    category: str | None
    rule: str | None
    blocked: bool
    reasoning: bool | None

    def differs_in(self, other: DecisionOutcome) -> tuple[str, ...]:
        """Names of the fields in which they differ."""
        return tuple(name for name in _OUTCOME_FIELDS if getattr(self, name) != getattr(other, name))


_OUTCOME_FIELDS = tuple(each.name for each in fields(DecisionOutcome))


def replay_decision(
    entry: Recorded, by: SignalReplay, states: Callable[[str], ModelState | None], feedback: ScoreFeedback
) -> DecisionOutcome | MissingSignals:
    """Decide a recorded request by other rules, with present workers. Pure: no score is drawn."""
    new, known = by.new, by.reusable_signals(entry.signals)
    if isinstance(entry, BlockCheck):
        blocked = judge_blocks(new.rules, known)
        return blocked if isinstance(blocked, MissingSignals) else _named_model_outcome(entry, blocked)
    verdict = judge_signals(new.rules, known)
    if isinstance(verdict, MissingSignals):
        return verdict
    return _auto_model_outcome(entry, new, verdict, states, feedback)


def recorded_outcome(
    entry: Recorded, states: Callable[[str], ModelState | None], feedback: ScoreFeedback
) -> DecisionOutcome:
    """Decide it by its own rules, with present workers, so that only rules make a difference."""
    if isinstance(entry, BlockCheck):
        return _named_model_outcome(entry, entry.verdict)
    return _auto_model_outcome(entry, entry.snapshot, entry.verdict, states, feedback)


def _named_model_outcome(entry: BlockCheck, verdict: DecisionVerdict | None) -> DecisionOutcome:
    if verdict is None:
        return DecisionOutcome(entry.model, None, None, False, None)
    return DecisionOutcome(None, None, verdict.rule_name, True, None)


def _auto_model_outcome(
    entry: DecisionPlan | BlockedDecision,
    snapshot: SemanticSnapshot,
    verdict: DecisionVerdict,
    states: Callable[[str], ModelState | None],
    feedback: ScoreFeedback,
) -> DecisionOutcome:
    rule = verdict.rule_name
    if verdict.action == "block":
        return DecisionOutcome(None, verdict.category, rule, True, None)
    wish, tokens = SelectionPreferences.usual(snapshot.section), 0
    if isinstance(entry, DecisionPlan):
        wish, tokens = entry.wish, entry.prompt_tokens
    choice, reasoning, _ = rank_models(snapshot, verdict, wish, tokens, states, feedback, explore=False)
    model = choice.best.model if choice is not None else None
    return DecisionOutcome(model, verdict.category, rule, False, reasoning.on)


class SignalReplay:
    """The recorded signals that another configuration would read alike."""

    def __init__(self, old: SemanticConfig, new: SemanticSnapshot) -> None:
        self.new = new
        self._categories = frozenset(category.name for category in collect_categories(new.section))
        before, after = _signal_inputs(old), _signal_inputs(new.section)
        silent = _CONFIGURED - new.detectors.keys()
        self._silent = tuple(silent)
        self._names = {
            kind: names.keys()
            for kind, names in after.items()
            if kind not in silent and names.items() <= before[kind].items()
        }

    def reusable_signals(self, signals: SignalSet) -> SignalSet:
        """Return those of one request; of the other kinds nothing is known."""
        reusable = SignalSet()
        for kind in self._silent:
            reusable.add_signals(kind, ())  # nothing is configured: it says nothing, whatever the text
        for kind, names in self._names.items():
            if signals.has_kind(kind):
                wanted = [signal for signal in signals.signals_of(kind) if _is_wanted(signal, names)]
                reusable.add_signals(kind, [self._as_category(signal) for signal in wanted])
        return reusable

    def _as_category(self, signal: SignalValue) -> SignalValue:
        if signal.kind not in ("keyword", "embedding"):
            return signal
        return replace(signal, category=signal.name if signal.name in self._categories else None)


_CONFIGURED = frozenset({"header", "regex", "keyword", "embedding"})
"""Kinds that need rules of their own."""


def _signal_inputs(section: SemanticConfig) -> Mapping[str, Mapping[str, Any]]:
    """Return, by kind and name, all inputs of a signal beside the text."""
    lists: dict[str, tuple[Any, ...]] = {
        "header": section.signals.headers,
        "context": section.signals.context,
        "language": (),
        "regex": collect_regexes(section),
        "keyword": collect_keywords(section),
        "complexity": section.signals.complexity,
        "embedding": collect_embeddings(section),
        "jailbreak": section.signals.jailbreak,
        "pii": section.signals.pii,
    }
    found: dict[str, dict[str, Any]] = {
        kind: {rule.name: rule.model_dump(exclude=set(_NOT_READ_BY)) for rule in rules}
        for kind, rules in lists.items()
    }
    domains = {each.name: each.labels() for each in section.signals.domains}
    named = domains | {each.name: each.labels() for each in collect_categories(section)}
    # The head's labels are one distribution: it is another as soon as one of them has another name.
    found["domain"] = {"": (named, section.classifier.category_model.model_dump())}
    guard = section.prompt_guard.model_dump() if section.prompt_guard is not None else None
    for kind in ("jailbreak", "pii"):
        found[kind][""] = (guard, section.classifier.model_dump())
    return found


def _is_wanted(signal: SignalValue, names: Collection[str]) -> bool:
    if not signal.name or signal.kind in ("domain", "jailbreak", "pii", "language"):
        return True
    name = signal.name.partition(":")[0] if signal.kind == "complexity" else signal.name
    return name in names


def find_decision_entry(journal: Journal) -> Recorded | None:
    """Return the entry that tells what was decided on a request, the last there is."""
    for step, _, detail in reversed(journal.entries):
        if step == "semantic" and isinstance(detail, DecisionPlan | BlockedDecision | BlockCheck):
            return detail
    return None


_AT_ONCE = 50
"""Requests replayed per event-loop turn."""


@dataclass(frozen=True, slots=True)
class DecisionComparison:
    """A request or text under present and new rules."""

    before: DecisionOutcome
    after: DecisionOutcome | None
    """None: only its text could tell."""
    missing: tuple[str, ...] = ()
    """The kinds of signals that would have to be read of it."""
    request_id: str = ""
    began_at: float = 0.0
    signals: SignalSet | None = None

    @property
    def changed(self) -> tuple[str, ...]:
        """Return the fields in which the new rules differ."""
        return () if self.after is None else self.before.differs_in(self.after)


@dataclass(slots=True)
class TryoutReport:
    """Everything that was tried."""

    requests: list[DecisionComparison] = field(default_factory=list)
    texts: list[DecisionComparison] = field(default_factory=list)
    unread: int = 0
    """Recent requests whose signals were not read, as they named their model and no rule blocks."""
    unread_matter: bool = False
    """Whether the new rules would have read them, as some block."""

    def count_changes(self) -> Mapping[str, int]:
        """Return how many of the recorded requests would differ, and in what."""
        counts = Counter(name for each in self.requests for name in each.changed)
        return {name: counts[name] for name in _OUTCOME_FIELDS}


class RulesTryout:
    """Tries rules. What is tried is neither counted nor kept."""

    def __init__(
        self, reader: SignalReader, states: Callable[[str], ModelState | None], feedback: ScoreFeedback
    ) -> None:
        self._reader = reader
        self._states = states
        self._feedback = feedback

    async def run_tryout(
        self,
        current: SemanticSnapshot,
        new: SemanticSnapshot,
        journals: Iterable[Journal],
        texts: Sequence[str],
    ) -> TryoutReport:
        """`journals`: recent requests; `texts`: what a user might ask for the model `auto`."""
        trial = TryoutReport(unread_matter=bool(new.blocks))
        replays: dict[int, tuple[SemanticSnapshot, SignalReplay]] = {}
        for number, journal in enumerate(journals, 1):
            self._replay_journal(journal, new, trial, replays)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # whoever is served goes between
        for text in texts:
            trial.texts.append(await self._compare_text(text, current, new))
        return trial

    def _replay_journal(
        self,
        journal: Journal,
        new: SemanticSnapshot,
        trial: TryoutReport,
        replays: dict[int, tuple[SemanticSnapshot, SignalReplay]],
    ) -> None:
        entry = find_decision_entry(journal)
        if entry is None:
            endpoint = _endpoint_of(journal)
            trial.unread += endpoint is not None and endpoint.chooses_model
            return
        old = entry.snapshot
        if id(old) not in replays:
            replays[id(old)] = old, SignalReplay(old.section, new)
        before = recorded_outcome(entry, self._states, self._feedback)
        replayed = replay_decision(entry, replays[id(old)][1], self._states, self._feedback)
        after = None if isinstance(replayed, MissingSignals) else replayed
        missing = tuple(sorted(replayed.kinds)) if isinstance(replayed, MissingSignals) else ()
        trial.requests.append(
            DecisionComparison(before, after, missing, journal.request_id, journal.began_at)
        )

    async def _compare_text(
        self, text: str, current: SemanticSnapshot, new: SemanticSnapshot
    ) -> DecisionComparison:
        before, _ = await self._judge_text(text, current)
        after, signals = await self._judge_text(text, new)
        return DecisionComparison(before, after, signals=signals)

    async def _judge_text(self, text: str, snapshot: SemanticSnapshot) -> tuple[DecisionOutcome, SignalSet]:
        question = question_in(text)
        signals, verdict, failed = await self._reader.read_signals(
            snapshot, question, partial(judge_signals, snapshot.rules)
        )
        if verdict.action == "block":
            return recorded_outcome(
                BlockedDecision(snapshot, signals, verdict), self._states, self._feedback
            ), signals
        wish = SelectionPreferences.usual(snapshot.section)
        plan = make_plan(
            snapshot, question, signals, verdict, wish, self._states, self._feedback, tuple(failed)
        )
        return recorded_outcome(plan, self._states, self._feedback), signals


def _endpoint_of(journal: Journal) -> Endpoint | None:
    for step, _, detail in journal.entries:
        if isinstance(detail, ReceivedRequest):
            return ENDPOINTS.get(detail.surface)
        if step == "receive" and isinstance(detail, dict):  # one of the gateway's own
            return ENDPOINTS.get(detail.get("surface", ""))
    return None
