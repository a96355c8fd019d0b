"""Replies that the guard reads on their way to the client: whole, as a stream, or as parts of a session."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Any, Self

from radixway.core.http.server_sent_events import split_events
from radixway.core.parsers import CallDelta, ReadPart, TextPart, ThinkingPart
from radixway.core.pipeline import Chunks, StreamBrokenError
from radixway.semantics.guard.answers.answer_forms import AnswerForm, Json, decode_json, encode_json
from radixway.semantics.guard.answers.event_queue import EventQueue
from radixway.semantics.guard.answers.guard_report import AnswerReport
from radixway.semantics.guard.answers.watched_text import WatchedText, WatchText


class DeadlineStream:
    """Yields the chunks of a stream, and None when what is held back has waited long enough: once a chunk."""

    def __init__(self, inner: Chunks, waits: Callable[[], bool], longest_wait_s: float) -> None:
        """`inner`: the stream. `waits`: whether anything is held back now."""
        self._inner = inner
        self._waits = waits
        self._longest_wait_s = longest_wait_s
        self._next: asyncio.Task[bytes] | None = None
        self._is_overdue = False
        """A None came since the last chunk."""
        self._deadline: float | None = None
        """Deadline of held-back text, in the event loop's time."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes | None:
        if not self._waits():
            self._deadline = None
        if self._next is None:
            if self._is_overdue or not self._waits():
                self._is_overdue = False
                return await anext(self._inner)
            self._next = asyncio.ensure_future(self._next_chunk())
        # A task, as not every stream can be asked again once its answer was cancelled.
        done, _ = await asyncio.wait({self._next}, timeout=self._wait_limit_s())
        if not done:
            self._is_overdue, self._deadline = True, None
            return None
        task, self._next = self._next, None
        self._is_overdue = False
        return task.result()

    async def aclose(self) -> None:
        """Close the stream."""
        if self._next is not None:
            self._next.cancel()
            await asyncio.gather(self._next, return_exceptions=True)
        await self._inner.aclose()

    async def _next_chunk(self) -> bytes:
        return await anext(self._inner)

    def _wait_limit_s(self) -> float | None:
        if self._is_overdue:
            return None
        now = asyncio.get_running_loop().time()
        if self._deadline is None:
            self._deadline = now + self._longest_wait_s
        return max(0.0, self._deadline - now)


class GuardedEvents(Chunks):
    """Passes on what is decided. A stream that a guard ends is closed at the worker at once."""

    def __init__(self, inner: Chunks, queue: EventQueue, report: AnswerReport, longest_wait_s: float) -> None:
        self._inner = DeadlineStream(inner, lambda: queue.has_pending, longest_wait_s)
        self._queue = queue
        self._report = report
        self._chunks = self._guarded_chunks()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return await anext(self._chunks)

    async def aclose(self) -> None:
        await self._chunks.aclose()
        await self._inner.aclose()
        self._report.finish_report()

    async def _guarded_chunks(self) -> AsyncGenerator[bytes]:
        queue = self._queue
        try:
            async for chunk in self._inner:
                if leaving := await self._push_chunk(chunk):
                    yield leaving
                if queue.ended:
                    await self._inner.aclose()
                    break
        except StreamBrokenError:
            if leaving := await queue.finish_stream():
                yield leaving
            raise
        if leaving := await queue.finish_stream():
            yield leaving
        self._report.finish_report()

    async def _push_chunk(self, chunk: bytes | None) -> bytes:
        if chunk is None:
            return await self._queue.release_overdue()
        return b"".join([await self._queue.push_event(event) for event in split_events(chunk)])


async def guard_body(body: bytes, form: AnswerForm, watch: WatchText, report: AnswerReport) -> bytes:
    """Return `body` as the client gets it: the bytes that came, unless a text in it is to change.

    Raises GuardFailedError for an unreadable one, where those may not pass.
    """
    try:
        data: Any = decode_json(body)
    except (ValueError, RecursionError, OverflowError) as error:
        report.report_unreadable(error)
        return body
    changes = [await _guard_answer(answer, index, form, watch) for index, answer in form.list_answers(data)]
    return encode_json(data) if any(changes) else body


async def _guard_answer(answer: Json, index: int, form: AnswerForm, watch: WatchText) -> bool:
    changed, stopped = False, False
    for field in form.text_fields(answer):
        if stopped:
            field.set_text("")
            continue
        text = watch(f"{form.place_name(index)}.{field.name}", in_json=field.in_json)
        await text.append_text(field.text, last=True)
        pieces = text.take_until(text.length)
        stopped = text.stopped
        if stopped or not all(piece.stayed for piece in pieces):
            changed = True
            field.set_text("".join(piece.text for piece in pieces))
    if stopped:
        form.mark_filtered(answer)
    if changed:
        form.drop_tokens(answer)
    return changed


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
        """Last part of the growing text."""
        self.changed = False
        """Text differs from the model's, so that tokens and log-probabilities are withheld."""
        self.stopped = False
        """The answer must end."""

    @property
    def has_pending(self) -> bool:
        """Return whether something is held back."""
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
        pieces = text.take_until(text.decided_until)
        self.stopped = text.stopped
        self.changed = self.changed or self.stopped or not all(piece.stayed for piece in pieces)
        new = "".join(piece.text for piece in pieces)
        if new:
            leaving.append(_copy_part(self._part, new))


def _part_name(part: ReadPart) -> str:
    if isinstance(part, CallDelta):
        return f"tool_calls[{part.index}].arguments"
    return "reasoning_content" if isinstance(part, ThinkingPart) else "content"


def _copy_part(part: ReadPart, text: str) -> ReadPart:
    if isinstance(part, CallDelta):
        return CallDelta(part.index, arguments=text)
    return ThinkingPart(text) if isinstance(part, ThinkingPart) else TextPart(text)
