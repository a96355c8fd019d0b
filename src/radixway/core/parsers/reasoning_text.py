"""A model's thinking, told apart from its answer: `<think>…</think>` in a text that comes in pieces."""

from typing import Literal

from radixway.core.parsers.parts import MarkerScanner

OPENS, CLOSES = "<think>", "</think>"

ThinkingPlace = Literal["before", "inside", "after"]
"""Where a text is: thinking may begin, has begun, or is over."""


class ReasoningSplitter:
    """Divides a text that begins at `place`. Blank lines around the thinking belong to neither part."""

    def __init__(self, place: ThinkingPlace) -> None:
        self._place: ThinkingPlace = place
        self._held = ""
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
        held, self._held = self._held, ""
        if self._place == "inside":
            return held.strip() + self._prose.take_held_back().rstrip(), ""
        return "", held

    def _scan_before(self, text: str) -> str:
        text, self._held = self._held + text, ""
        start = text.lstrip()
        if start.startswith(OPENS):
            self._place, self._opened = "inside", True
            return start[len(OPENS) :]
        if OPENS.startswith(start):
            self._held = text
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
        """The thinking from its first word on: without space, and the tag that some models repeat."""
        text, self._held = self._held + text, ""
        start = text.lstrip()
        if not self._opened and start != OPENS and OPENS.startswith(start):
            self._held = text
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
