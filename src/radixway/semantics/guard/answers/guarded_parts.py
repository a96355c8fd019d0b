"""Answers of sessions, guarded as thinking, text and tool calls before a protocol writes them."""

from __future__ import annotations

from collections.abc import Iterable

from radixway.core.parsers import CallDelta, ReadPart, TextPart, ThinkingPart
from radixway.semantics.guard.answers.guard_report import AnswerReport
from radixway.semantics.guard.answers.watched_text import WatchedText, WatchText


class GuardedParts:
    """Guards one answer, part by part; how it is divided changes nothing."""

    def __init__(self, watch: WatchText, report: AnswerReport, longest_wait_s: float) -> None:
        self.longest_wait_s = longest_wait_s
        """How long a text waits for the end of its sentence."""
        self._watch = watch
        self._report = report
        self._name = ""
        self._text: WatchedText | None = None
        self._part: ReadPart = TextPart("")
        """The last part of the text that grows."""
        self.changed = False
        """Something is not as the model wrote it: tokens and log-probabilities would tell what was."""
        self.stopped = False
        """The answer must end."""

    @property
    def has_pending(self) -> bool:
        """Whether something is held back."""
        return self._text is not None and self._text.has_pending

    async def release_overdue(self) -> list[ReadPart]:
        """Return what has waited long enough."""
        leaving: list[ReadPart] = []
        if self._text is not None:
            await self._text.decide_overdue()
            self._release_text(self._text, leaving)
        return leaving

    async def add_parts(self, parts: Iterable[ReadPart]) -> list[ReadPart]:
        """Add `parts`, and return what may leave now."""
        leaving: list[ReadPart] = []
        for part in parts:
            if self.stopped:
                break
            await self._add_part(part, leaving)
        return leaving

    async def finish_parts(self) -> list[ReadPart]:
        """Return what was held back; no more will come."""
        leaving: list[ReadPart] = []
        if not self.stopped:
            await self._close_text(leaving)
        return leaving

    def close(self) -> None:
        """Write the report. May be called again."""
        self._report.finish_report()

    async def _add_part(self, part: ReadPart, leaving: list[ReadPart]) -> None:
        name = _part_name(part)
        if name != self._name:
            await self._close_text(leaving)
            if self.stopped:
                return
            self._name = name
            self._text = self._watch(f"answer.{name}", in_json=isinstance(part, CallDelta))
        self._part = part
        if isinstance(part, CallDelta) and part.name is not None:
            leaving.append(CallDelta(part.index, part.id, part.name))
        assert self._text is not None
        await self._text.append_text(part.arguments if isinstance(part, CallDelta) else part.text)
        self._release_text(self._text, leaving)

    async def _close_text(self, leaving: list[ReadPart]) -> None:
        text, self._text, self._name = self._text, None, ""
        if text is not None:
            await text.append_text("", last=True)
            self._release_text(text, leaving)

    def _release_text(self, text: WatchedText, leaving: list[ReadPart]) -> None:
        self._report.collect_findings(text.all_rules())
        pieces = text.take_until(text.decided_until)
        self.stopped = text.stopped
        self.changed = self.changed or self.stopped or not all(piece.stayed for piece in pieces)
        new = "".join(piece.text for piece in pieces)
        if new:
            leaving.append(_copy_part(self._part, new))


def _part_name(part: ReadPart) -> str:
    match part:
        case ThinkingPart():
            return "reasoning_content"
        case TextPart():
            return "content"
    return f"tool_calls[{part.index}].arguments"


def _copy_part(part: ReadPart, text: str) -> ReadPart:
    match part:
        case ThinkingPart():
            return ThinkingPart(text)
        case TextPart():
            return TextPart(text)
    return CallDelta(part.index, arguments=text)
