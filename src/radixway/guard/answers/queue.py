"""Events of a guarded stream: they wait until their texts are decided, and leave in the order they came in.

events   [role][ "write" ][ " to anna@" ][ "example.org" ][ " today." ][ finish ][ usage ][DONE]
           └ as they came ┘└ rewritten: the mask is in the first ────┘└ as they came …
"""

from __future__ import annotations

import json
import re
from codecs import BOM_UTF8
from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

from radixway.guard.answers.forms import Field, Form, Json
from radixway.guard.answers.json_text import decode, encode
from radixway.guard.answers.pieces import Piece
from radixway.guard.answers.report import Report
from radixway.guard.answers.text import WatchedText
from radixway.guard.answers.whole import Watch
from radixway.web.server_sent_events import DONE_DATA, DONE_EVENT, event_data, replace_data, write_event

_LIKE_JSON = re.compile(rb"\{|\[\s*\{")
_LONG = 32
"""Characters of an event that is divided where only a part of it is decided."""
_SPACE = re.compile(r"\s*")
_decoder = json.JSONDecoder()
_HALF = "\ufffd"
"""What stands for a character that has not come whole."""


@dataclass(slots=True, eq=False)
class Told:
    """A text, and what the client has of it."""

    text: WatchedText
    index: int
    """Of its answer."""
    said: list[str] = field(default_factory=list)
    changed: bool = False
    """Something the client has is not as it came."""
    hidden_until: int = 0
    """Where what was changed last ends, in the worker's words."""

    def take(self, until: int) -> tuple[str, bool]:
        """What the client gets up to there, and whether any of it is not as it came."""
        pieces: list[Piece] = self.text.take_until(until)
        for piece in pieces:
            if not piece.stayed:
                self.hidden_until = piece.origin + piece.size
                self.changed = True
        new = "".join(piece.text for piece in pieces)
        self.said.append(new)
        return new, not all(piece.stayed for piece in pieces)


@dataclass(slots=True, eq=False)
class Spot:
    """A text's stretch in one event: `[begin, end)` in the worker's words."""

    told: Told
    field: Field
    at: int
    """Which of the event's answers, and of that one's fields."""
    nth: int
    begin: int
    end: int


@dataclass(slots=True, eq=False)
class Waiting:
    """An event."""

    raw: bytes
    data: Any = None
    """What it says; None where it is no answer."""
    spots: list[Spot] = field(default_factory=list)
    divided: bool = False

    def rewritten(self) -> bytes:
        """Its bytes with what `data` says now."""
        return replace_data(self.raw, encode(self.data))


class Unreadable(Exception):
    """An event looks like JSON, and is none."""

    def __init__(self, why: Exception) -> None:
        super().__init__(type(why).__name__)
        self.why = why


class EventQueue:
    """Takes the worker's events and gives out the client's. No I/O but what judges do."""

    def __init__(self, form: Form, watch: Watch, report: Report) -> None:
        self._form = form
        self._watch = watch
        self._report = report
        self._waiting: deque[Waiting] = deque()
        self._now: dict[int, Told] = {}
        """By answer: the text that grows."""
        self._field: dict[int, str] = {}
        self._wholes = Wholes()
        self._head: Json = {}
        self._finished: set[int] = set()
        self.ended = False
        """The guard has ended the stream."""

    @property
    def waits(self) -> bool:
        """Whether something is held back."""
        return bool(self._waiting)

    async def take(self, raw: bytes) -> bytes:
        """One event; what may leave now. Raises GuardFailed for one that cannot be read, and may not pass."""
        raw = raw.removeprefix(BOM_UTF8)  # which readers pass over
        try:
            return await self._take(raw)
        except Unreadable as unreadable:
            parts = _take_apart(raw)
            if not parts:
                return self._pass(raw, unreadable)
        return b"".join([await self._take_part(part) for part in parts])

    async def _take_part(self, raw: bytes) -> bytes:
        try:
            return await self._take(raw)
        except Unreadable as unreadable:
            return self._pass(raw, unreadable)

    def _pass(self, raw: bytes, unreadable: Unreadable) -> bytes:
        self._report.unreadable(unreadable.why)
        self._waiting.append(Waiting(raw))
        return self._leaving()

    async def _take(self, raw: bytes) -> bytes:
        """Raises Unreadable."""
        if self.ended:
            return b""
        said = event_data(raw)
        event = Waiting(raw)
        if said.startswith(DONE_DATA):
            await self.end()
        elif _LIKE_JSON.match(said):
            try:
                data = decode(said)
            except (ValueError, RecursionError, OverflowError) as error:
                raise Unreadable(error) from None
            await self._read(event, data)
        self._waiting.append(event)
        return self._leaving()

    async def hurry(self) -> bytes:
        """What has waited long enough."""
        for told in self._now.values():
            await told.text.hurry()
            self._report.hear(told.text.all_judges())
        return self._leaving(divided_from=1)

    async def end(self) -> bytes:
        """No text follows; what may leave now."""
        for index in list(self._now):
            await self._close(index)
        return self._leaving()

    async def _read(self, event: Waiting, data: Any) -> None:
        answers = self._form.answers(data)
        if not answers:
            return
        event.data = data
        if isinstance(data, dict):
            self._head = data
        for at, (index, answer) in enumerate(answers):
            for nth, each in enumerate(self._form.fields(answer)):
                event.spots.append(await self._grow(index, answer, each, at, nth))
            if self._form.is_finished(answer):
                self._finished.add(index)
                await self._close(index)

    async def _grow(self, index: int, answer: Json, said: Field, at: int, nth: int) -> Spot:
        if self._field.get(index) != said.name:
            await self._close(index)  # a model that answers does not go on thinking
        told = self._now.get(index)
        if told is None:
            watched = self._watch(f"{self._form.place(index)}.{said.name}", in_json=said.in_json)
            told = self._now[index] = Told(watched, index)
            self._field[index] = said.name
        begin = told.text.length
        await told.text.grow(self._wholes.new(index, answer, said.text, begin))
        self._report.hear(told.text.all_judges())
        return Spot(told, said, at, nth, begin, told.text.length)

    async def _close(self, index: int) -> None:
        told = self._now.pop(index, None)
        if told is not None:
            await told.text.grow("", last=True)
            self._report.hear(told.text.all_judges())

    def _leaving(self, divided_from: int = _LONG) -> bytes:
        leaving: list[bytes] = []
        while self._waiting and not self.ended:
            event = self._waiting[0]
            if any(spot.told.text.known < spot.end for spot in event.spots):
                leaving.append(self._first_part(event, divided_from))
                break
            self._waiting.popleft()
            leaving.append(self._left(event))
        return b"".join(leaving)

    def _left(self, event: Waiting) -> bytes:
        """The event as it leaves."""
        rewrite = event.divided
        answers = self._form.answers(event.data) if event.spots else []
        for spot in event.spots:
            told, answer = spot.told, answers[spot.at][1]
            is_last = told.text.stopped and spot.end > told.text.stop_at
            changed = self._tell(spot, answer, told.take(spot.end), cut=is_last)
            if is_last:
                self._form.unfinish(answer)
                return (event.rewritten() if spot.field.text else b"") + self._cut(told)
            rewrite = rewrite or changed
        return event.rewritten() if rewrite else event.raw

    def _tell(self, spot: Spot, answer: Json, taken: tuple[str, bool], *, cut: bool = False) -> bool:
        """Put in what the client gets, if that is not what came. Whether it is not."""
        new, changed = taken
        told = spot.told
        hidden = changed or cut or spot.begin < told.hidden_until or (told.changed and self._wholes.are)
        if hidden:
            self._form.drop_tokens(answer)
        if not self._wholes.are:
            spot.field.set(new)
        elif hidden:
            spot.field.set("".join(told.said))
        return hidden

    def _first_part(self, event: Waiting, least: int) -> bytes:
        """What is decided of a long event, as an event of its own."""
        if len(event.spots) != 1 or self._wholes.are:
            return b""
        spot = event.spots[0]
        until = spot.told.text.known
        if spot.end - spot.begin < least or until <= spot.begin:
            return b""
        part = Waiting(event.raw, decode(event_data(event.raw)))
        answer = self._form.answers(part.data)[spot.at][1]
        field = self._form.fields(answer)[spot.nth]
        self._tell(replace(spot, field=field), answer, spot.told.take(until))
        self._form.drop_tokens(answer)
        self._form.unfinish(answer)
        if event.divided:
            self._form.continue_from(answer)
        else:
            self._form.continue_from(self._form.answers(event.data)[spot.at][1])
        spot.begin, event.divided = until, True
        return part.rewritten()

    def _cut(self, stopped: Told) -> bytes:
        """Every answer ends here."""
        self.ended = True
        self._waiting.clear()
        events = []
        for index in sorted({stopped.index, *self._now} - (self._finished - {stopped.index})):
            told = stopped if index == stopped.index else self._now[index]
            said = "".join(told.said) if self._wholes.are else ""
            events.append(write_event(encode(self._form.closing(self._head, index, said))))
        return b"".join(events) + DONE_EVENT


class Wholes:
    """Tells events of `/generate` that repeat the text so far from those that bring only what is new."""

    def __init__(self) -> None:
        self.are = False
        """They repeat it."""
        self._said: dict[int, str] = {}
        self._known = False

    def new(self, index: int, answer: Json, text: str, have: int) -> str:
        """What of an event's text is new, `have` characters of its answer being known."""
        meta = answer.get("meta_info")
        if meta is None:
            return text
        before = self._said.get(index)
        if before is not None and not self._known:
            self._known, self.are = True, _repeats(before, text, answer, meta)
        self._said[index] = text
        if meta.get("finish_reason") is None and (before is None or self.are):
            text = text.rstrip(_HALF)
        return text[have:] if self.are else text


def _repeats(before: str, text: str, answer: Json, meta: Json) -> bool:
    ids, count = answer.get("output_ids"), meta.get("completion_tokens")
    if isinstance(ids, list) and ids and type(count) is int:
        return len(ids) >= count
    return text.startswith(before.rstrip(_HALF))


def _take_apart(event: bytes) -> list[bytes]:
    """Divide an event that says several JSON texts, as readers of lines understand it, into one each.

    Bytes that are no UTF-8 become U+FFFD. Empty where there is anything else in it.
    """
    said = event_data(event).decode("utf-8", "replace")
    done = DONE_DATA.decode()
    parts: list[bytes] = []
    at = 0
    while at < len(said):
        try:
            end = at + len(done) if said.startswith(done, at) else _decoder.raw_decode(said, at)[1]
        except (ValueError, RecursionError):
            return []
        parts.append(replace_data(event, said[at:end].encode("utf-8", "replace")))
        space = _SPACE.match(said, end)
        at = end if space is None else space.end()
    return parts
