"""What every judge of a growing text promises, whatever it looks for.

view      "The instant rate is 1.1. ![ ](http://198.51…"       the text as the client would see it
                                  safe ▲      └ an address that may yet carry data: held back
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from radixway.guard.incident import GuardFinding


@dataclass(frozen=True, slots=True)
class TextEdit:
    """What is to stand in the view in place of `[begin, end)`."""

    begin: int
    end: int
    new: str


@dataclass(slots=True)
class TextView:
    """One text of an answer, as far as it has come, with placeholders turned back. All judges read it."""

    where: str
    """The place as findings name it: `choices[0].message.content`."""
    text: str = ""
    in_json: bool = False
    """It is JSON: a tool call's arguments."""
    restored: list[tuple[int, int]] = field(default_factory=list)
    """Stretches that were placeholders, in order."""

    def own_parts(self, begin: int, end: int) -> list[tuple[int, int]]:
        """`[begin, end)` without what was restored."""
        parts = []
        for start, stop in self.restored:
            if stop <= begin or start >= end:
                continue
            if start > begin:
                parts.append((begin, start))
            begin = max(begin, stop)
        return [*parts, (begin, end)] if begin < end else parts

    def make_finding(self, kind: str, begin: int, end: int, confidence: float) -> GuardFinding:
        """Something found in it."""
        return GuardFinding(kind, self.where, begin, end, confidence)


class TextJudge(Protocol):
    """Looks for one thing in one text. How the text is divided changes nothing of what it finds."""

    @property
    def rule(self) -> str:
        """`answers.pii` …"""
        ...

    @property
    def action(self) -> str:
        """What is done about it."""
        ...

    safe: int
    """Whatever begins before this place of the view is known: its edits are told, and it may leave."""
    stop: int | None
    """The answer must end here."""

    async def judge_view(self, view: TextView, *, last: bool) -> Sequence[TextEdit]:
        """The view is longer, or `last`: it has ended. What is to change, in the order of the text."""
        ...

    async def judge_overdue(self, view: TextView) -> Sequence[TextEdit]:
        """What has waited long enough is judged, but for what may be part of something longer."""
        ...

    def take_findings(self) -> list[GuardFinding]:
        """What was found since the last time."""
        ...
