"""A response as server-sent events, from its beginning or after the last event that a client has."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import msgspec
from fastapi.responses import StreamingResponse

from radixway.api.chats.responses.completions import decode_part
from radixway.api.chats.responses.service import ResponseService
from radixway.api.chats.responses.shapes import (
    stored_answer,
    stored_failure,
    stored_response_object,
)
from radixway.chat import published_shapes
from radixway.chat.database_outages import retry_through_outages
from radixway.chat.records import MessageState
from radixway.chat.stored_responses import ResponseStore, StoredResponse
from radixway.chat.token_log import ATTEMPT, LAST, TokenLogEntry
from radixway.core.http import ServerStoppingError
from radixway.core.http.server_sent_events import write_comment
from radixway.core.parsers import CallDelta, ReadPart, TextPart, ThinkingPart
from radixway.core.protocols.answer import AnswerDelta, GeneratedAnswer
from radixway.core.protocols.completion_parser import build_finish_info
from radixway.core.protocols.responses_reply import ResponsesEventWriter

_HEADERS = {"cache-control": "no-cache", "x-accel-buffering": "no"}


def sse_response(events: AsyncGenerator[bytes, None]) -> StreamingResponse:
    """Build the streaming reply of `events`."""
    return StreamingResponse(events, media_type="text/event-stream", headers=_HEADERS)


PING = write_comment(b"ping")
_ENDS = frozenset({"message", "error"})
_decode = msgspec.json.Decoder().decode


async def stream_response_events(
    service: ResponseService,
    stored: StoredResponse,
    entries: AsyncIterator[TokenLogEntry] | None,
    after: int = -1,
    is_stopping: Callable[[], bool] = lambda: False,
) -> AsyncGenerator[bytes, None]:
    """Yield every event after number `after`, to the last, and pings in between.

    `entries`: its complete token log; None: it has ended and its log is gone. `is_stopping`: whether the
    server cancels the stream by stopping; the last event then says so, and the response goes on elsewhere.

    Events are numbered by the text streamed. If an answer was restarted or its log is incomplete, a client
    that already has some events gets only the last, which holds the complete response.
    """
    writer = ResponsesEventWriter(stored_response_object(stored), after=after)
    begun = writer.encode_start(queued=stored.background)
    resumes = not begun and after >= writer.event_count
    if begun:
        yield begun
    is_stale, in_log = False, False
    try:
        pinged = _no_entries() if entries is None else _with_ping_gaps(entries, service.chats.config.ping_s)
        async for entry in pinged:
            if entry is None:
                yield PING
                continue
            event = _decode(entry.event)
            if not in_log and await _is_complete_log(service.store, stored, event):
                break
            is_stale = (
                is_stale
                or entry.event == published_shapes.encode_restarted()
                or (not in_log and resumes and ATTEMPT < entry.position < LAST)  # not the first attempt
            )
            in_log = True
            if event["event_type"] in _ENDS:
                break
            part = decode_part(event)
            if part is not None and not is_stale and (grown := writer.encode_delta(AnswerDelta((part,)))):
                yield grown
    except asyncio.CancelledError:
        if not is_stopping():
            raise
        yield writer.encode_error_event(ServerStoppingError())
        return
    ended = await _current_response(service.store, stored) or stored
    if not in_log:
        is_stale = resumes
        for known in _parts_of_answer(stored_answer(ended)) if not is_stale else ():
            if grown := writer.encode_delta(AnswerDelta((known,))):
                yield grown
    yield _final_events(writer, ended, is_stale=is_stale)


async def _is_complete_log(responses: ResponseStore, stored: StoredResponse, first: dict[str, Any]) -> bool:
    """Return whether the log's `first` event is the end or the complete text of an answer that ended in
    another process, without its reasoning and calls."""
    if first["event_type"] in _ENDS:
        return True
    if first["event_type"] != "token":
        return False
    now = await _current_response(responses, stored)
    return now is not None and now.message.state.is_final and now.message.content == first["text"]


async def _current_response(responses: ResponseStore, stored: StoredResponse) -> StoredResponse | None:
    """Return the response's present state once the database answers: streams outlive its outages."""
    return await retry_through_outages(lambda: responses.get_response(stored.message.id), asyncio.Event())


async def _with_ping_gaps(
    entries: AsyncIterator[TokenLogEntry], ping_s: float
) -> AsyncGenerator[TokenLogEntry | None, None]:
    """Yield the entries, and None for every `ping_s` seconds without one."""
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


def _final_events(writer: ResponsesEventWriter, ended: StoredResponse, *, is_stale: bool) -> bytes:
    """Yield the last events: the response as stored, or as streamed if it is not stored yet."""
    made, state = stored_response_object(ended), ended.message.state
    answer = stored_answer(ended) if is_stale or ended.output is not None else writer.answer
    for told, known in zip(writer.answer.blocks, answer.blocks, strict=False):
        told.scores = known.scores
    if state is MessageState.COMPLETE:
        is_stopping = build_finish_info(ended.message.finish_reason, ended.message.usage)
        kind, response = f"response.{made.last_status(is_stopping)}", made.finished(answer, is_stopping)
    elif state in (MessageState.ABORTED_BY_WORKER, MessageState.TIMEOUT):
        if not is_stale:
            return writer.encode_failure(stored_failure(ended))
        kind, response = "response.failed", made.failed(answer, stored_failure(ended))
    else:
        # No published event is called `cancelled`; this one ends a stream for every client.
        kind, response = "response.incomplete", made.cancelled(answer)
    if is_stale:
        return writer.encode_single_event(kind, response)
    return writer.encode_close("completed" if kind == "response.completed" else "incomplete", kind, response)


def _parts_of_answer(answer: GeneratedAnswer) -> list[ReadPart]:
    parts: list[ReadPart] = []
    for index, block in enumerate(answer.blocks):
        match block.kind:
            case "thinking":
                parts.append(ThinkingPart(block.text))
            case "text":
                parts.append(TextPart(block.text))
            case "call":
                parts.append(CallDelta(index, block.call_id, block.name, block.text))
    return parts


async def _no_entries() -> AsyncGenerator[TokenLogEntry | None, None]:
    return
    yield
