"""What becomes of a text: pieces that stayed, and pieces that something else stands for."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


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
