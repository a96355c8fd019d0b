"""Parts of an answer that a parser finds, the scanner that holds back what is undecided, and thinking."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias


@dataclass(slots=True, frozen=True)
class ThinkingPart:
    """More of the model's reasoning."""

    text: str


@dataclass(slots=True, frozen=True)
class TextPart:
    """Content of the message."""

    text: str


@dataclass(slots=True, frozen=True)
class ToolCallStart:
    """A tool call begins; its arguments follow."""

    name: str


@dataclass(slots=True, frozen=True)
class ArgumentsPart:
    """More of the JSON arguments of the latest call."""

    text: str


Part: TypeAlias = TextPart | ToolCallStart | ArgumentsPart


class CallParser(Protocol):
    """Finds tool calls in a text that comes in pieces; how it is divided changes nothing."""

    def feed_text(self, text: str) -> list[Part]:
        """Read `text` and return the parts that are certain now."""

    def flush_parts(self) -> list[Part]:
        """Return what was still held back; no more text will come."""


class MarkerScanner:
    """Text up to a marker: gives out what is neither a beginning of one nor space that may precede one."""

    def __init__(self, markers: Sequence[str]) -> None:
        self._markers = tuple(markers)
        self._pending = ""
        self.space = ""

    def scan_text(self, text: str) -> tuple[str, str | None, str]:
        """Return the text before a marker (space before it goes to `space`), the marker, and the rest."""
        text = self._pending + text
        found = [(at, marker) for marker in self._markers if (at := text.find(marker)) >= 0]
        if found:
            at, marker = min(found)
            before = text[:at].rstrip()
            self._pending, self.space = "", text[len(before) : at]
            return before, marker, text[at + len(marker) :]
        certain = min([len(text), *(partial_match_start(text, marker) for marker in self._markers)])
        certain = len(text[:certain].rstrip())
        self._pending = text[certain:]
        return text[:certain], None, ""

    def take_held_back(self) -> str:
        """Return what is held back, if no marker is to be looked for any longer."""
        pending, self._pending = self._pending, ""
        return pending


def partial_match_start(text: str, stop: str) -> int:
    """Return where the longest tail of `text` starts that begins `stop`; its length if there is none."""
    at = text.find(stop[0], max(0, len(text) - len(stop) + 1))
    while at >= 0 and not stop.startswith(text[at:]):
        at = text.find(stop[0], at + 1)
    return at if at >= 0 else len(text)


OPENS, CLOSES = "<think>", "</think>"

ThinkingPlace = Literal["before", "inside", "after"]
"""Position of a text: before, inside or after reasoning."""


class ReasoningSplitter:
    """Divides a text that begins at `place`. Blank lines around the thinking belong to neither part."""

    def __init__(self, place: ThinkingPlace) -> None:
        self._place: ThinkingPlace = place
        self._pending = ""
        self._prose = MarkerScanner([CLOSES])
        self._at_start = True
        self._opened = False

    def split_text(self, text: str) -> tuple[str, str]:
        """Split `text` into thinking and answer, as far as they are certain now."""
        thought = ""
        if self._place == "before":
            text = self._scan_before(text)
        if self._place == "inside":
            thought, text = self._scan_inside(text)
        if self._place == "after":
            return thought, self._scan_after(text)
        return thought, ""

    def flush_held_back(self) -> tuple[str, str]:
        """Return what was still held back. Thinking that was never closed stays thinking."""
        pending, self._pending = self._pending, ""
        if self._place == "inside":
            return pending.strip() + self._prose.take_held_back().rstrip(), ""
        return "", pending

    def _scan_before(self, text: str) -> str:
        text, self._pending = self._pending + text, ""
        start = text.lstrip()
        if start.startswith(OPENS):
            self._place, self._opened = "inside", True
            return start[len(OPENS) :]
        if OPENS.startswith(start):
            self._pending = text
            return ""
        self._place, self._at_start = "after", False
        return text

    def _scan_inside(self, text: str) -> tuple[str, str]:
        if self._at_start:
            text = self._without_start(text)
            if not text:
                return "", ""
            self._at_start = False
        thought, closed, rest = self._prose.scan_text(text)
        if closed is not None:
            self._place, self._at_start = "after", True
        return thought, rest

    def _without_start(self, text: str) -> str:
        """Strip leading space and a repeated start tag."""
        text, self._pending = self._pending + text, ""
        start = text.lstrip()
        if not self._opened and start != OPENS and OPENS.startswith(start):
            self._pending = text
            return ""
        if not self._opened and start.startswith(OPENS):
            self._opened = True
            start = start[len(OPENS) :].lstrip()
        return start

    def _scan_after(self, text: str) -> str:
        if self._at_start:
            text = text.lstrip("\n")
            self._at_start = not text
        return text
