"""What every judge of a growing text promises, whatever it looks for.

view      "The instant rate is 1.1. ![ ](http://198.51…"       the text as the client would see it
                                  safe ▲      └ an address that may yet carry data: held back

What becomes of a text: pieces that stayed, and pieces that something else stands for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from radixway.semantics.guard.incident import GuardFinding


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


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A stretch of the text as it came, `[origin, origin + size)`, and what the client gets in its place."""

    text: str
    origin: int
    size: int
    told: str | None = None
    """What outsiders may see of it, where that is not `text`; None where it stayed as it came."""

    @property
    def stayed(self) -> bool:
        """It is what came."""
        return self.told is None

    def split(self, at: int) -> tuple[TextPiece, TextPiece]:
        """Before and from character `at` of its text. What was put in comes with the second half."""
        if self.told is None:
            return (
                TextPiece(self.text[:at], self.origin, at),
                TextPiece(self.text[at:], self.origin + at, self.size - at),
            )
        return (
            TextPiece(self.text[:at], self.origin, 0, ""),
            TextPiece(self.text[at:], self.origin, self.size, self.told),
        )


class PieceQueue:
    """A queue of them, in the order of the text."""

    __slots__ = ("_pieces",)

    def __init__(self) -> None:
        self._pieces: deque[TextPiece] = deque()

    def __len__(self) -> int:
        return len(self._pieces)

    def append_piece(self, piece: TextPiece) -> None:
        """At the end."""
        self._pieces.append(piece)

    def take_length(self, length: int) -> list[TextPiece]:
        """The next `length` characters of the client's text."""
        taken: list[TextPiece] = []
        while length > 0:
            piece = self._pieces.popleft()
            if len(piece.text) > length:
                piece, rest = piece.split(length)
                self._pieces.appendleft(rest)
            length -= len(piece.text)
            taken.append(piece)
        return taken

    def take_until(self, origin: int) -> list[TextPiece]:
        """All that stands for what came before `origin`."""
        taken: list[TextPiece] = []
        while self._pieces and self._pieces[0].origin < origin:
            piece = self._pieces.popleft()
            if piece.told is None and piece.origin + piece.size > origin:
                piece, rest = piece.split(origin - piece.origin)
                self._pieces.appendleft(rest)
            taken.append(piece)
        return taken
