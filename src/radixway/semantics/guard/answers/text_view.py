"""A growing text of an answer, and the contract of the rules that judge it.

view      "The instant rate is 1.1. ![ ](http://198.51…"       the text as the client would see it
                                  safe ▲      └ an address that may yet carry data: held back
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from radixway.semantics.guard.incident import GuardFinding


@dataclass(frozen=True, slots=True)
class TextEdit:
    """A replacement of `[begin, end)` of the view by `new`."""

    begin: int
    end: int
    new: str


@dataclass(slots=True)
class TextView:
    """A text of an answer, as far as it has come, with placeholders turned back. All judges read it."""

    where: str
    """The place as findings name it: `choices[0].message.content`."""
    text: str = ""
    in_json: bool = False
    """The text is JSON: a tool call's arguments."""
    restored: list[tuple[int, int]] = field(default_factory=list)
    """Stretches that were placeholders, in order."""

    def own_parts(self, begin: int, end: int) -> list[tuple[int, int]]:
        """Return `[begin, end)` without what was restored."""
        parts = []
        for start, stop in self.restored:
            if stop <= begin or start >= end:
                continue
            if start > begin:
                parts.append((begin, start))
            begin = max(begin, stop)
        return [*parts, (begin, end)] if begin < end else parts


class AnswerRule:
    """What the rules of `guard.answers` have in common: an action, and findings that are reported once."""

    rule: ClassVar[str]
    """`answers.pii` …"""

    def __init__(self, action: str) -> None:
        self.action = action
        self._findings: list[GuardFinding] = []

    def add_finding(self, view: TextView, kind: str, begin: int, end: int, confidence: float = 1.0) -> None:
        """Note that `[begin, end)` of `view` is of this `kind`."""
        self._findings.append(GuardFinding(kind, view.where, begin, end, confidence))

    def take_findings(self) -> list[GuardFinding]:
        """Return what was found since the last call."""
        found, self._findings = self._findings, []
        return found


class TextJudge(AnswerRule, ABC):
    """Looks for one thing in one text. How the text is divided changes nothing of what it finds."""

    def __init__(self, action: str) -> None:
        super().__init__(action)
        self.safe = 0
        """Edits before this place of the view are known: what begins before it may leave."""
        self.stop: int | None = None
        """Where the answer must end."""

    @abstractmethod
    async def judge_view(self, view: TextView, *, last: bool) -> Sequence[TextEdit]:
        """Return the edits, in order, now that `view` is longer; `last`: it has ended."""

    async def judge_overdue(self, view: TextView) -> Sequence[TextEdit]:
        """Judge what in `view` has waited long enough; by default, what may be part of more waits on."""
        return ()


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A stretch of the text as it came, `[origin, origin + size)`, and what the client gets in its place."""

    text: str
    origin: int
    size: int
    shown: str | None = None
    """Text for outsiders, where it differs from `text`; None if unchanged."""

    @property
    def stayed(self) -> bool:
        """Whether it is what came."""
        return self.shown is None

    def split(self, at: int) -> tuple[TextPiece, TextPiece]:
        """Split before character `at` of its text. What was put in comes with the second half."""
        if self.shown is None:
            return (
                TextPiece(self.text[:at], self.origin, at),
                TextPiece(self.text[at:], self.origin + at, self.size - at),
            )
        return (
            TextPiece(self.text[:at], self.origin, 0, ""),
            TextPiece(self.text[at:], self.origin, self.size, self.shown),
        )


class PieceQueue(deque[TextPiece]):
    """Pieces in the order of the text."""

    def take_length(self, length: int) -> list[TextPiece]:
        """Remove and return the next `length` characters of the client's text."""
        taken: list[TextPiece] = []
        while length > 0:
            piece = self.popleft()
            if len(piece.text) > length:
                piece, rest = piece.split(length)
                self.appendleft(rest)
            length -= len(piece.text)
            taken.append(piece)
        return taken

    def take_until(self, origin: int) -> list[TextPiece]:
        """Remove and return all that stands for what came before `origin`."""
        taken: list[TextPiece] = []
        while self and self[0].origin < origin:
            piece = self.popleft()
            if piece.stayed and piece.origin + piece.size > origin:
                piece, rest = piece.split(origin - piece.origin)
                self.appendleft(rest)
            taken.append(piece)
        return taken


_SENTENCE_END = re.compile(
    r"[。！？；]|\n[ \t]*\n|(?<=[^\W\d_][^\W\d_][^\W\d_])[.!?][\"')\]]{0,2}(?=\s)|(?<=[\d)\]\"'%])[.!?](?=\s)"
)
"""A point behind one or two letters may be of an abbreviation."""


def find_sentence_end(text: str, begin: int, max_chars: int) -> int | None:
    """Return where the sentence from `begin` on ends, if it does within `max_chars` characters."""
    found = _SENTENCE_END.search(text, begin, min(len(text), begin + max_chars + 1))
    return found.end() if found is not None and found.end() - begin <= max_chars else None
