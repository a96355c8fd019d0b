"""Tells whole answers of workers from broken ones.

Each protocol shows the end of its answers; what shows none was cut.

=====================  ====================================================================================
a whole reply          is JSON to its last byte
events of OpenAI       `data: [DONE]`, or a `finish_reason` for every choice, or an `error`
events of /generate    `data: [DONE]`, or a `finish_reason` in `meta_info` for every answer, or an `error`
events of messages     an event `message_stop`, or `error`
events of responses    `response.completed`, `.incomplete` or `.failed`, or `error`
events of TGI          an event with `generated_text`, or an `error`
=====================  ====================================================================================

vLLM, SGLang, llama.cpp and Ollama send both marks of OpenAI's, servers in front of them sometimes one. An
`error` ends a stream too.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from radixway.core.http.server_sent_events import DONE_DATA, event_data, split_events
from radixway.core.pipeline.endpoints import ReplyForm

_LAST_CHUNKS = 16
"""Usage, comments and `[DONE]` may follow the last text, each in its own chunk."""
_MAX_ANSWERS = 4096
"""Answers of one stream that are followed."""

_skip = msgspec.json.Decoder(msgspec.Raw).decode
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class IncompleteReplyError(Exception):
    """The answer ended before it was whole. The text says what is missing."""


class _ChoiceMarks(msgspec.Struct, frozen=True):
    index: int = 0
    finish_reason: Any = None


class _CompletionMarks(msgspec.Struct):
    choices: list[_ChoiceMarks] | None = None
    error: Any = None


class _GenerateMarks(msgspec.Struct):
    meta_info: _ChoiceMarks = _ChoiceMarks()
    index: int = 0
    error: Any = None


class _TypedEvent(msgspec.Struct):
    type: str = ""


class _TgiEvent(msgspec.Struct):
    generated_text: str | None = None
    error: Any = None


Marks = Iterable[tuple[int, bool]] | None
"""Index and completion of each answer in an event. None: the event ends the whole stream."""

_completion = msgspec.json.Decoder(_CompletionMarks).decode
_generated = msgspec.json.Decoder(_GenerateMarks).decode
_typed_event = msgspec.json.Decoder(_TypedEvent).decode
_tgi_event = msgspec.json.Decoder(_TgiEvent).decode


def _read_completion(data: bytes) -> Marks:
    event = _completion(data)
    if event.error:
        return None
    return [(choice.index, bool(choice.finish_reason)) for choice in event.choices or ()]


def _read_generated(data: bytes) -> Marks:
    event = _generated(data)
    return None if event.error else [(event.index, bool(event.meta_info.finish_reason))]


def _read_tgi_event(data: bytes) -> Marks:
    event = _tgi_event(data)
    return None if event.error else [(0, event.generated_text is not None)]


_LAST_EVENTS = frozenset(
    {"message_stop", "response.completed", "response.incomplete", "response.failed", "error"}
)


def _read_typed_event(data: bytes) -> Marks:
    return None if _typed_event(data).type in _LAST_EVENTS else ()


def _read_opaque(data: bytes) -> Marks:
    return None  # any event may be the last: HTTP says where the stream ends


_READERS: dict[ReplyForm, Callable[[bytes], Marks]] = {
    ReplyForm.MESSAGE: _read_typed_event,
    ReplyForm.RESPONSE: _read_typed_event,
    ReplyForm.OPAQUE: _read_opaque,
    ReplyForm.GENERATE: _read_generated,
    ReplyForm.TGI: _read_tgi_event,
}
"""Readers by the worker's reply form; others have OpenAI's `choices`."""


def check_complete_reply(body: bytes) -> None:
    """Raise IncompleteReplyError unless `body`, a reply that does not stream, is JSON to its last byte."""
    try:
        _skip(body)
    except _UNREADABLE as error:
        raise IncompleteReplyError(f"its {len(body)} bytes are no whole JSON ({error})") from None


class StreamEndDetector:
    """Looks for the end of one stream: give it all chunks with `note`, and ask `check` once no more come.

    A chunk is whole server-sent events. Of a stream of one answer only the last chunks are kept, and none is
    read before the end; where several answers are asked for, each event is, because they end one by one.
    """

    __slots__ = ("_answers", "_finished", "_last", "_read", "note")

    def __init__(self, form: ReplyForm, answers: int | None = 1) -> None:
        """`form`: the worker's. `answers`: how many are asked for; None: several, not known how many."""
        self._read = _READERS.get(form, _read_completion)
        self._answers = answers
        self._finished: dict[int, bool] = {}
        self._last: deque[bytes] = deque(maxlen=_LAST_CHUNKS)
        self.note: Callable[[bytes], None] = self._last.append if answers == 1 else self._note_chunk

    def check_complete(self, rest: bytes = b"") -> bytes:
        """Return the part of `rest` that belongs to the stream: the bytes behind its last whole event.

        Raises IncompleteReplyError unless the stream has shown its protocol's end.
        """
        if rest.strip():
            is_event = _is_complete_json(event_data(rest))
            if is_event:
                self.note(rest)
            elif not self._last and rest.lstrip()[:1] in (b"{", b"["):
                check_complete_reply(rest)  # the worker does not stream
                return rest
        else:
            is_event = True
        if not self._all_finished():
            missing = (
                "its last event is cut" if not is_event else "it ended without [DONE] or a finish reason"
            )
            raise IncompleteReplyError(missing)
        return rest if is_event else b""

    def has_end_marker(self) -> bool:
        """Return whether the stream has ended itself, by `[DONE]` or an error: its connection may break."""
        return any(marks is None for marks in self._last_marks())

    def _all_finished(self) -> bool:
        for marks in self._last_marks():
            if marks is None or (self._answers == 1 and any(finished for _, finished in marks)):
                return True
        if self._answers == 1 or not self._finished:
            return False
        return all(self._finished.values()) and len(self._finished) >= (self._answers or 0)

    def _last_marks(self) -> Iterator[Marks]:
        for chunk in reversed(self._last):
            for event in reversed([*split_events(chunk)]):  # the mark is most often in the last one
                yield self._marks_of(event)

    def _note_chunk(self, chunk: bytes) -> None:
        self._last.append(chunk)
        for event in split_events(chunk):
            for index, finished in self._marks_of(event) or ():
                if len(self._finished) >= _MAX_ANSWERS and index not in self._finished:
                    continue
                self._finished[index] = finished or self._finished.get(index, False)

    def _marks_of(self, event: bytes) -> Marks:
        """Implement `Marks`; unreadable events have none."""
        data = event_data(event)
        if data == DONE_DATA:
            return None
        try:
            return self._read(data) if data else ()
        except _UNREADABLE:
            return ()


def _is_complete_json(data: bytes) -> bool:
    if data == DONE_DATA:
        return True
    try:
        _skip(data)
    except _UNREADABLE:
        return False
    return True
