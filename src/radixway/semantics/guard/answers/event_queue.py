"""The events of a guarded stream: they wait until their texts are decided, and leave in order.

events   [role][ "write" ][ " to anna@" ][ "example.org" ][ " today." ][ finish ][ usage ][DONE]
           └ as they came ┘└ rewritten: the mask is in the first ────┘└ as they came …
"""

import json
import re
from codecs import BOM_UTF8
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

from radixway.core.http.server_sent_events import DONE_DATA, DONE_EVENT, event_data, replace_data, write_event
from radixway.semantics.guard.answers.answer_forms import (
    AnswerField,
    AnswerForm,
    Json,
    decode_json,
    encode_json,
)
from radixway.semantics.guard.answers.guard_report import AnswerReport
from radixway.semantics.guard.answers.text_view import TextPiece
from radixway.semantics.guard.answers.watched_text import WatchedText, WatchText

_LIKE_JSON = re.compile(rb"\{|\[\s*\{")
_MIN_DIVIDED_CHARS = 32
"""Events with fewer characters are not divided."""
_SPACE = re.compile(r"\s*")
_decoder = json.JSONDecoder()
_HALF = "\ufffd"
"""Stands for a character that is not complete yet."""


@dataclass(slots=True, eq=False)
class ReleasedText:
    """A text, and what the client has of it."""

    text: WatchedText
    index: int
    """Index of its answer."""
    parts: list[str] = field(default_factory=list)
    changed: bool = False
    """The client's text differs from the worker's."""
    hidden_until: int = 0
    """End of the latest change, in the worker's text."""

    def release_until(self, until: int) -> tuple[str, bool]:
        """Return what the client gets up to `until`, and whether any of it is not as it came."""
        pieces: list[TextPiece] = self.text.take_until(until)
        for piece in pieces:
            if not piece.stayed:
                self.hidden_until = piece.origin + piece.size
                self.changed = True
        new = "".join(piece.text for piece in pieces)
        self.parts.append(new)
        return new, not all(piece.stayed for piece in pieces)


@dataclass(slots=True, eq=False)
class EventTextSpan:
    """A text's stretch in one event: `[begin, end)` in the worker's words."""

    released: ReleasedText
    field: AnswerField
    at: int
    """The index of its answer in the event."""
    nth: int
    """The index of the field in its answer."""
    begin: int
    end: int


@dataclass(slots=True, eq=False)
class PendingEvent:
    """An event that waits until its texts are decided."""

    raw: bytes
    data: Any = None
    """Its JSON; None where it is no answer."""
    spots: list[EventTextSpan] = field(default_factory=list)
    divided: bool = False

    def encode_event(self) -> bytes:
        """Return its bytes with `data` as it is now."""
        return replace_data(self.raw, encode_json(self.data))


class UnreadableEventError(Exception):
    """An event looks like JSON, and cannot be decoded."""

    def __init__(self, why: Exception) -> None:
        super().__init__(type(why).__name__)
        self.why = why


class EventQueue:
    """Takes the worker's events and gives out the client's. No I/O but what judges do."""

    def __init__(self, form: AnswerForm, watch: WatchText, report: AnswerReport) -> None:
        self._form = form
        self._watch = watch
        self._report = report
        self._waiting: deque[PendingEvent] = deque()
        self._now: dict[int, ReleasedText] = {}
        """By answer: its growing text."""
        self._field: dict[int, str] = {}
        self._cumulative = CumulativeTexts()
        self._head: Json = {}
        self._finished: set[int] = set()
        self.ended = False
        """The guard has ended the stream."""

    @property
    def has_pending(self) -> bool:
        """Return whether something is held back."""
        return bool(self._waiting)

    async def push_event(self, raw: bytes) -> bytes:
        """Add the event `raw`, and return what may leave now.

        Raises GuardFailedError for one that cannot be read, and may not pass.
        """
        raw = raw.removeprefix(BOM_UTF8)  # which readers pass over
        try:
            return await self._push_event(raw)
        except UnreadableEventError:
            parts = _take_apart(raw) or [raw]
        return b"".join([await self._push_part(part) for part in parts])

    async def _push_part(self, raw: bytes) -> bytes:
        try:
            return await self._push_event(raw)
        except UnreadableEventError as unreadable:
            self._report.report_unreadable(unreadable.why)
            self._waiting.append(PendingEvent(raw))
            return self._release_ready()

    async def _push_event(self, raw: bytes) -> bytes:
        if self.ended:
            return b""
        payload = event_data(raw)
        event = PendingEvent(raw)
        if payload.startswith(DONE_DATA):
            await self.finish_stream()
        elif _LIKE_JSON.match(payload):
            try:
                data = decode_json(payload)
            except (ValueError, RecursionError, OverflowError) as error:
                raise UnreadableEventError(error) from None
            await self._read_answers(event, data)
        self._waiting.append(event)
        return self._release_ready()

    async def release_overdue(self) -> bytes:
        """Return what has waited long enough."""
        for released in self._now.values():
            await released.text.decide_overdue()
        return self._release_ready(divided_from=1)

    async def finish_stream(self) -> bytes:
        """End all texts, and return what may leave now."""
        for index in list(self._now):
            await self._close_answer(index)
        return self._release_ready()

    async def _read_answers(self, event: PendingEvent, data: Any) -> None:
        answers = self._form.list_answers(data)
        if not answers:
            return
        event.data = data
        if isinstance(data, dict):
            self._head = data
        for at, (index, answer) in enumerate(answers):
            for nth, each in enumerate(self._form.text_fields(answer)):
                event.spots.append(await self._extend_text(index, answer, each, at, nth))
            if self._form.is_finished(answer):
                self._finished.add(index)
                await self._close_answer(index)

    async def _extend_text(
        self, index: int, answer: Json, source: AnswerField, at: int, nth: int
    ) -> EventTextSpan:
        if self._field.get(index) != source.name:
            await self._close_answer(index)  # a model that answers does not go on thinking
        released = self._now.get(index)
        if released is None:
            watched = self._watch(f"{self._form.place_name(index)}.{source.name}", in_json=source.in_json)
            released = self._now[index] = ReleasedText(watched, index)
            self._field[index] = source.name
        begin = released.text.length
        await released.text.append_text(self._cumulative.new_text(index, answer, source.text, begin))
        return EventTextSpan(released, source, at, nth, begin, released.text.length)

    async def _close_answer(self, index: int) -> None:
        released = self._now.pop(index, None)
        if released is not None:
            await released.text.append_text("", last=True)

    def _release_ready(self, divided_from: int = _MIN_DIVIDED_CHARS) -> bytes:
        leaving: list[bytes] = []
        while self._waiting and not self.ended:
            event = self._waiting[0]
            if any(spot.released.text.decided_until < spot.end for spot in event.spots):
                leaving.append(self._split_event(event, divided_from))
                break
            self._waiting.popleft()
            leaving.append(self._release_event(event))
        return b"".join(leaving)

    def _release_event(self, event: PendingEvent) -> bytes:
        rewrite = event.divided
        answers = self._form.list_answers(event.data) if event.spots else []
        for spot in event.spots:
            released, answer = spot.released, answers[spot.at][1]
            is_last = released.text.stopped and spot.end > released.text.stop_at
            changed = self._rewrite_field(spot, answer, released.release_until(spot.end), cut=is_last)
            if is_last:
                self._form.clear_finish_reason(answer)
                return (event.encode_event() if spot.field.text else b"") + self._cut_answers(released)
            rewrite = rewrite or changed
        return event.encode_event() if rewrite else event.raw

    def _rewrite_field(
        self, spot: EventTextSpan, answer: Json, taken: tuple[str, bool], *, cut: bool = False
    ) -> bool:
        """Put in what the client gets, if that is not what came; return whether it is not."""
        new, changed = taken
        released = spot.released
        repeats = self._cumulative.are_cumulative
        hidden = changed or cut or spot.begin < released.hidden_until or (released.changed and repeats)
        if hidden:
            self._form.drop_tokens(answer)
        if not repeats:
            spot.field.set_text(new)
        elif hidden:
            spot.field.set_text("".join(released.parts))
        return hidden

    def _split_event(self, event: PendingEvent, min_chars: int) -> bytes:
        """Return what is decided of a long event, as an event of its own."""
        if len(event.spots) != 1 or self._cumulative.are_cumulative:
            return b""
        spot = event.spots[0]
        until = spot.released.text.decided_until
        if spot.end - spot.begin < min_chars or until <= spot.begin:
            return b""
        part = PendingEvent(event.raw, decode_json(event_data(event.raw)))
        answer = self._form.list_answers(part.data)[spot.at][1]
        field = self._form.text_fields(answer)[spot.nth]
        self._rewrite_field(replace(spot, field=field), answer, spot.released.release_until(until))
        self._form.drop_tokens(answer)
        self._form.clear_finish_reason(answer)
        rest = self._form.list_answers(event.data)[spot.at][1]
        self._form.mark_continuation(answer if event.divided else rest)
        spot.begin, event.divided = until, True
        return part.encode_event()

    def _cut_answers(self, stopped: ReleasedText) -> bytes:
        """Return the events that end every answer here."""
        self.ended = True
        self._waiting.clear()
        events = []
        for index in sorted({stopped.index, *self._now} - (self._finished - {stopped.index})):
            released = stopped if index == stopped.index else self._now[index]
            text = "".join(released.parts) if self._cumulative.are_cumulative else ""
            events.append(write_event(encode_json(self._form.closing_event(self._head, index, text))))
        return b"".join(events) + DONE_EVENT


class CumulativeTexts:
    """Tells events of `/generate` that repeat the text so far from those that bring only what is new."""

    def __init__(self) -> None:
        self.are_cumulative = False
        self._texts: dict[int, str] = {}
        self._known = False

    def new_text(self, index: int, answer: Json, text: str, have: int) -> str:
        """Return what is new of the `text` of `answer`, of which `have` characters are known."""
        meta = answer.get("meta_info")
        if meta is None:
            return text
        before = self._texts.get(index)
        if before is not None and not self._known:
            self._known, self.are_cumulative = True, _repeats(before, text, answer, meta)
        self._texts[index] = text
        if meta.get("finish_reason") is None and (before is None or self.are_cumulative):
            text = text.rstrip(_HALF)
        return text[have:] if self.are_cumulative else text


def _repeats(before: str, text: str, answer: Json, meta: Json) -> bool:
    ids, count = answer.get("output_ids"), meta.get("completion_tokens")
    if isinstance(ids, list) and ids and type(count) is int:
        return len(ids) >= count
    return text.startswith(before.rstrip(_HALF))


def _take_apart(event: bytes) -> list[bytes]:
    """Divide an event that says several JSON texts, as readers of lines understand it, into one each.

    Bytes that are no UTF-8 become U+FFFD. Empty where there is anything else in it.
    """
    payload = event_data(event).decode("utf-8", "replace")
    done = DONE_DATA.decode()
    parts: list[bytes] = []
    at = 0
    while at < len(payload):
        try:
            end = at + len(done) if payload.startswith(done, at) else _decoder.raw_decode(payload, at)[1]
        except (ValueError, RecursionError):
            return []
        parts.append(replace_data(event, payload[at:end].encode("utf-8", "replace")))
        space = _SPACE.match(payload, end)
        at = end if space is None else space.end()
    return parts
