"""Parts that a parser makes of an answer's text, and a tool that all parsers need: to hold back what is
undecided.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias


@dataclass(slots=True, frozen=True)
class ThinkingPart:
    """More of what the model thinks before it answers."""

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
    """More of the arguments (JSON) of the call that began last."""

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
        self._held = ""
        self.space = ""

    def scan_text(self, text: str) -> tuple[str, str | None, str]:
        """Text that is certain, the marker that ended it (None: none yet) and what comes after the marker.

        The space before a marker is not in the text but in `space`.
        """
        text = self._held + text
        found = [(at, marker) for marker in self._markers if (at := text.find(marker)) >= 0]
        if found:
            at, marker = min(found)
            before = text[:at].rstrip()
            self._held, self.space = "", text[len(before) : at]
            return before, marker, text[at + len(marker) :]
        certain = min([len(text), *(partial_match_start(text, marker) for marker in self._markers)])
        certain = len(text[:certain].rstrip())
        self._held = text[certain:]
        return text[:certain], None, ""

    def take_held_back(self) -> str:
        """Return what is held back, if no marker is to be looked for any longer."""
        held, self._held = self._held, ""
        return held


def partial_match_start(text: str, stop: str) -> int:
    """Return the place where the longest tail of `text` starts that is a beginning of `stop`; its length if
    there is none.
    """
    at = text.find(stop[0], max(0, len(text) - len(stop) + 1))
    while at >= 0 and not stop.startswith(text[at:]):
        at = text.find(stop[0], at + 1)
    return at if at >= 0 else len(text)
