"""Rules tried before they are applied: on requests of late, by what was recorded, and on given texts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from radixway.pipeline import ENDPOINTS, Endpoint, ModelState
from radixway.semantic.decide import Missing, judge
from radixway.semantic.detect import Stopped
from radixway.semantic.plan import Wish, make_plan
from radixway.semantic.question import Question
from radixway.semantic.reading import Reader
from radixway.semantic.rejudging import Outcome, Rejudgement, judged_entry, recorded_outcome, rejudge
from radixway.semantic.scores import Feedback
from radixway.semantic.signals.base import Signals
from radixway.semantic.snapshot import Snapshot
from radixway.telemetry import Journal

_AT_ONCE = 50
"""Requests that are judged again in one turn of the event loop."""


@dataclass(frozen=True, slots=True)
class Tried:
    """One request, or text, under the rules in force and under the new ones."""

    before: Outcome
    after: Outcome | None
    """None: only its text could tell."""
    missing: tuple[str, ...] = ()
    """The kinds of signals that would have to be read of it."""
    request_id: str = ""
    began_at: float = 0.0
    signals: Signals | None = None
    """As the new rules read them of a given text."""

    @property
    def changed(self) -> tuple[str, ...]:
        """In what the new rules would make a difference."""
        return () if self.after is None else self.before.differs_in(self.after)


@dataclass(slots=True)
class Trial:
    """Everything that was tried."""

    requests: list[Tried] = field(default_factory=list)
    texts: list[Tried] = field(default_factory=list)
    unread: int = 0
    """Requests of late of which no signals were read, as they named their model and no rule blocks."""
    unread_matter: bool = False
    """Whether the new rules would have read them, as some block."""

    def counts(self) -> Mapping[str, int]:
        """How many of the recorded requests would differ, and in what."""
        told = dict.fromkeys(("model", "category", "rule", "blocked", "reasoning"), 0)
        for each in self.requests:
            for name in each.changed:
                told[name] += 1
        return told


class Tryout:
    """Tries rules. What is tried is neither counted nor kept."""

    def __init__(
        self, reader: Reader, states: Callable[[str], ModelState | None], feedback: Feedback
    ) -> None:
        self._reader = reader
        self._states = states
        self._feedback = feedback

    async def run(
        self, current: Snapshot, new: Snapshot, journals: Iterable[Journal], texts: Sequence[str]
    ) -> Trial:
        """`journals`: requests of late; `texts`: what a user might ask for the model `auto`."""
        trial = Trial(unread_matter=bool(new.blocks))
        by: dict[int, tuple[Snapshot, Rejudgement]] = {}
        for number, journal in enumerate(journals, 1):
            self._again(journal, new, trial, by)
            if number % _AT_ONCE == 0:
                await asyncio.sleep(0)  # whoever is served goes between
        for text in texts:
            trial.texts.append(await self._of_text(text, current, new))
        return trial

    def _again(
        self, journal: Journal, new: Snapshot, trial: Trial, by: dict[int, tuple[Snapshot, Rejudgement]]
    ) -> None:
        entry = judged_entry(journal)
        if entry is None:
            endpoint = _endpoint_of(journal)
            trial.unread += endpoint is not None and endpoint.chooses_model
            return
        old = entry.snapshot
        if id(old) not in by:
            by[id(old)] = old, Rejudgement(old.section, new)
        before = recorded_outcome(entry, self._states, self._feedback)
        said = rejudge(entry, by[id(old)][1], self._states, self._feedback)
        after, missing = (None, tuple(sorted(said.kinds))) if isinstance(said, Missing) else (said, ())
        trial.requests.append(Tried(before, after, missing, journal.request_id, journal.began_at))

    async def _of_text(self, text: str, current: Snapshot, new: Snapshot) -> Tried:
        before, _ = await self._judge(text, current)
        after, signals = await self._judge(text, new)
        return Tried(before, after, signals=signals)

    async def _judge(self, text: str, snapshot: Snapshot) -> tuple[Outcome, Signals]:
        question = Question(text, text)
        signals, verdict, failed = await self._reader.read(snapshot, question, partial(judge, snapshot.rules))
        if verdict.action == "block":
            return recorded_outcome(
                Stopped(snapshot, signals, verdict), self._states, self._feedback
            ), signals
        preference = snapshot.section.preference
        wish = Wish(preference.default, "", preference.completion_tokens)
        plan = make_plan(
            snapshot, question, signals, verdict, wish, self._states, self._feedback, tuple(failed)
        )
        return recorded_outcome(plan, self._states, self._feedback), signals


def _endpoint_of(journal: Journal) -> Endpoint | None:
    for step, _, said in journal.entries:
        if step == "receive" and isinstance(said, dict):
            return ENDPOINTS.get(said.get("surface", ""))
    return None
