"""Rules tried before they are applied: on requests of late, by what was recorded, and on given texts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from radixway.pipeline import ENDPOINTS, Endpoint, ModelState
from radixway.semantic.decide import MissingSignals, judge_signals
from radixway.semantic.detect import BlockedDecision
from radixway.semantic.plan import SelectionPreferences, make_plan
from radixway.semantic.question import RequestQuestion
from radixway.semantic.reading import SignalReader
from radixway.semantic.rejudging import (
    DecisionOutcome,
    SignalReplay,
    find_decision_entry,
    recorded_outcome,
    replay_decision,
)
from radixway.semantic.scores import ScoreFeedback
from radixway.semantic.signals.base import SignalSet
from radixway.semantic.snapshot import SemanticSnapshot
from radixway.telemetry import Journal

_AT_ONCE = 50
"""Requests that are judged again in one turn of the event loop."""


@dataclass(frozen=True, slots=True)
class DecisionComparison:
    """One request, or text, under the rules in force and under the new ones."""

    before: DecisionOutcome
    after: DecisionOutcome | None
    """None: only its text could tell."""
    missing: tuple[str, ...] = ()
    """The kinds of signals that would have to be read of it."""
    request_id: str = ""
    began_at: float = 0.0
    signals: SignalSet | None = None
    """As the new rules read them of a given text."""

    @property
    def changed(self) -> tuple[str, ...]:
        """In what the new rules would make a difference."""
        return () if self.after is None else self.before.differs_in(self.after)


@dataclass(slots=True)
class TryoutReport:
    """Everything that was tried."""

    requests: list[DecisionComparison] = field(default_factory=list)
    texts: list[DecisionComparison] = field(default_factory=list)
    unread: int = 0
    """Requests of late of which no signals were read, as they named their model and no rule blocks."""
    unread_matter: bool = False
    """Whether the new rules would have read them, as some block."""

    def count_changes(self) -> Mapping[str, int]:
        """How many of the recorded requests would differ, and in what."""
        told = dict.fromkeys(("model", "category", "rule", "blocked", "reasoning"), 0)
        for each in self.requests:
            for name in each.changed:
                told[name] += 1
        return told


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
        """`journals`: requests of late; `texts`: what a user might ask for the model `auto`."""
        trial = TryoutReport(unread_matter=bool(new.blocks))
        by: dict[int, tuple[SemanticSnapshot, SignalReplay]] = {}
        for number, journal in enumerate(journals, 1):
            self._replay_journal(journal, new, trial, by)
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
        by: dict[int, tuple[SemanticSnapshot, SignalReplay]],
    ) -> None:
        entry = find_decision_entry(journal)
        if entry is None:
            endpoint = _endpoint_of(journal)
            trial.unread += endpoint is not None and endpoint.chooses_model
            return
        old = entry.snapshot
        if id(old) not in by:
            by[id(old)] = old, SignalReplay(old.section, new)
        before = recorded_outcome(entry, self._states, self._feedback)
        said = replay_decision(entry, by[id(old)][1], self._states, self._feedback)
        after, missing = (None, tuple(sorted(said.kinds))) if isinstance(said, MissingSignals) else (said, ())
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
        question = RequestQuestion(text, text)
        signals, verdict, failed = await self._reader.read_signals(
            snapshot, question, partial(judge_signals, snapshot.rules)
        )
        if verdict.action == "block":
            return recorded_outcome(
                BlockedDecision(snapshot, signals, verdict), self._states, self._feedback
            ), signals
        preference = snapshot.section.preference
        wish = SelectionPreferences(preference.default, "", preference.completion_tokens)
        plan = make_plan(
            snapshot, question, signals, verdict, wish, self._states, self._feedback, tuple(failed)
        )
        return recorded_outcome(plan, self._states, self._feedback), signals


def _endpoint_of(journal: Journal) -> Endpoint | None:
    for step, _, said in journal.entries:
        if step == "receive" and isinstance(said, dict):
            return ENDPOINTS.get(said.get("surface", ""))
    return None
