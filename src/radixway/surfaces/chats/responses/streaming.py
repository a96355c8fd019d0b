"""A response as server-sent events, from its beginning or after the last event that a client has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import msgspec

from radixway.chat import events
from radixway.chat.outages import through_outages
from radixway.chat.records import MessageState
from radixway.chat.responses import Response, Responses
from radixway.chat.tokens import ATTEMPT, LAST, Entry
from radixway.parsers import CallDelta, ReadPart, Text, Thought
from radixway.surfaces.chats.responses.hearing import as_part
from radixway.surfaces.chats.responses.shapes import (
    answer_of,
    ending_of,
    failure_of,
    object_of,
)
from radixway.surfaces.wires.answer import Answer, Growth
from radixway.surfaces.wires.responses_events import ResponsesEvents
from radixway.web import ServerStopping
from radixway.web.server_sent_events import write_comment

PING = write_comment(b"ping")
_ENDS = frozenset({"message", "error"})
_decode = msgspec.json.Decoder().decode


async def told(
    responses: Responses,
    kept: Response,
    entries: AsyncIterator[Entry | None] | None,
    after: int = -1,
    ending: Callable[[], bool] = lambda: False,
) -> AsyncGenerator[bytes, None]:
    """Every event after number `after`, to the last.

    `entries`: the whole of its token log, with None for every moment of silence; None: it has ended and been
    forgotten. `ending`: whether the server ends what is cancelled; the last event then says so, and the
    response itself goes on elsewhere.

    Numbers follow from what was said. Where an answer began anew, or its log is not all there, whoever has
    heard something of it already is told its end alone, which holds all of it.
    """
    writer = ResponsesEvents(object_of(kept), after=after)
    begun = writer.begin(queued=kept.background)
    resumes = not begun and after >= writer.count
    if begun:
        yield begun
    void, in_log = False, False
    try:
        async for entry in entries or _nothing():
            if entry is None:
                yield PING
                continue
            event = _decode(entry.event)
            if not in_log and await _says_it_all(responses, kept, event):
                break
            void = void or entry.event == events.restarted() or (not in_log and resumes and _is_later(entry))
            in_log = True
            if event["event_type"] in _ENDS:
                break
            part = as_part(event)
            if part is not None and not void and (grown := writer.grow(Growth((part,)))):
                yield grown
    except asyncio.CancelledError:
        if not ending():
            raise
        yield writer.error(ServerStopping())
        return
    ended = await _current(responses, kept) or kept
    if not in_log:
        void = resumes
        for known in _parts(answer_of(ended)) if not void else ():
            if grown := writer.grow(Growth((known,))):
                yield grown
    yield _end(writer, ended, void=void)


async def _says_it_all(responses: Responses, kept: Response, first: dict[str, Any]) -> bool:
    """Whether a log's first event is the end, or all the words: those of an answer that ended in another
    process, whose thoughts and calls the log does not have.
    """
    if first["event_type"] in _ENDS:
        return True
    if first["event_type"] != "token":
        return False
    now = await _current(responses, kept)
    return now is not None and now.message.state.is_final and now.message.content == first["text"]


async def _current(responses: Responses, kept: Response) -> Response | None:
    """As it is now, once the database says so: streams outlive its outages, as answers do."""
    return await through_outages(lambda: responses.current(kept.message.id), asyncio.Event())


def _is_later(entry: Entry) -> bool:
    """Of another attempt than the first one."""
    return ATTEMPT < entry.position < LAST


async def with_silences(entries: AsyncIterator[Entry], ping_s: float) -> AsyncGenerator[Entry | None, None]:
    """The entries, and None for every `ping_s` without one."""
    coming = asyncio.ensure_future(anext(entries, None))
    try:
        while True:
            done, _ = await asyncio.wait([coming], timeout=ping_s)
            if not done:
                yield None
                continue
            entry = coming.result()
            if entry is None:
                return
            coming = asyncio.ensure_future(anext(entries, None))
            yield entry
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        closing = getattr(entries, "aclose", None)
        if closing is not None:
            await closing()


def _end(writer: ResponsesEvents, ended: Response, *, void: bool) -> bytes:
    """The last events: the response as it is kept, or, as far as that is not written yet, as it was heard."""
    made, state = object_of(ended), ended.message.state
    answer = answer_of(ended) if void or ended.output is not None else writer.answer
    if state is MessageState.COMPLETE:
        status = made.last_status(ending_of(ended.message))
        kind, response = f"response.{status}", made.ended(answer, ending_of(ended.message))
    elif state in (MessageState.ABORTED_BY_WORKER, MessageState.TIMEOUT):
        if not void:
            return writer.fail(failure_of(ended))
        kind, response = "response.failed", made.failed(answer, failure_of(ended))
    else:
        # No published event is called `cancelled`; this one ends a stream for every client.
        kind, response = "response.incomplete", made.cancelled(answer)
    if void:
        return writer.only(kind, response)
    return writer.close("completed" if kind == "response.completed" else "incomplete", kind, response)


def _parts(answer: Answer) -> list[ReadPart]:
    """An answer that has been told already, as one part for each of its blocks."""
    parts: list[ReadPart] = []
    for index, block in enumerate(answer.blocks):
        match block.kind:
            case "thinking":
                parts.append(Thought(block.text))
            case "text":
                parts.append(Text(block.text))
            case "call":
                parts.append(CallDelta(index, block.call_id, block.name, block.text))
    return parts


async def _nothing() -> AsyncGenerator[Entry | None, None]:
    return
    yield
