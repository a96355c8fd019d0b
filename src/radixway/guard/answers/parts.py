"""Answers of sessions: read into thinking, text and tool calls before a wire puts them into its own words."""

from __future__ import annotations

from collections.abc import Iterable

from radixway.guard.answers.report import Report
from radixway.guard.answers.text import WatchedText
from radixway.guard.answers.whole import Watch
from radixway.parsers import CallDelta, ReadPart, Text, Thought


class GuardedParts:
    """One answer, part by part; how it is divided changes nothing."""

    def __init__(self, watch: Watch, report: Report, longest_wait_s: float) -> None:
        self.longest_wait_s = longest_wait_s
        """For the end of a sentence."""
        self._watch = watch
        self._report = report
        self._name = ""
        self._text: WatchedText | None = None
        self._part: ReadPart = Text("")
        """The last part of the text that grows."""
        self.changed = False
        """Something is not as the model wrote it: tokens and log-probabilities would tell what was."""
        self.stopped = False
        """The answer must end."""

    @property
    def waits(self) -> bool:
        """Whether something is held back."""
        return self._text is not None and self._text.waits

    async def hurry(self) -> list[ReadPart]:
        """What has waited long enough."""
        leaving: list[ReadPart] = []
        if self._text is not None:
            await self._text.hurry()
            self._leave(self._text, leaving)
        return leaving

    async def grow(self, parts: Iterable[ReadPart]) -> list[ReadPart]:
        """What may leave with these added."""
        leaving: list[ReadPart] = []
        for part in parts:
            if self.stopped:
                break
            await self._grow(part, leaving)
        return leaving

    async def end(self) -> list[ReadPart]:
        """What was held back; no more will come."""
        leaving: list[ReadPart] = []
        if not self.stopped:
            await self._close(leaving)
        return leaving

    def close(self) -> None:
        """It is over, however. May be called again."""
        self._report.close()

    async def _grow(self, part: ReadPart, leaving: list[ReadPart]) -> None:
        name = _name_of(part)
        if name != self._name:
            await self._close(leaving)
            if self.stopped:
                return
            self._name = name
            self._text = self._watch(f"answer.{name}", in_json=isinstance(part, CallDelta))
        self._part = part
        if isinstance(part, CallDelta) and part.name is not None:
            leaving.append(CallDelta(part.index, part.id, part.name))
        assert self._text is not None
        await self._text.grow(part.arguments if isinstance(part, CallDelta) else part.text)
        self._leave(self._text, leaving)

    async def _close(self, leaving: list[ReadPart]) -> None:
        text, self._text, self._name = self._text, None, ""
        if text is not None:
            await text.grow("", last=True)
            self._leave(text, leaving)

    def _leave(self, text: WatchedText, leaving: list[ReadPart]) -> None:
        self._report.hear(text.all_judges())
        pieces = text.take_until(text.known)
        self.stopped = text.stopped
        self.changed = self.changed or self.stopped or not all(piece.stayed for piece in pieces)
        new = "".join(piece.text for piece in pieces)
        if new:
            leaving.append(_like(self._part, new))


def _name_of(part: ReadPart) -> str:
    match part:
        case Thought():
            return "reasoning_content"
        case Text():
            return "content"
    return f"tool_calls[{part.index}].arguments"


def _like(part: ReadPart, text: str) -> ReadPart:
    match part:
        case Thought():
            return Thought(text)
        case Text():
            return Text(text)
    return CallDelta(part.index, arguments=text)
