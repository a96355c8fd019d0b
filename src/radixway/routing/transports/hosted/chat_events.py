"""Chat completions of what a provider's answer says: whole, and as a stream of chunks."""

import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import msgspec

from radixway.core.http.server_sent_events import (
    DONE_EVENT,
    event_data,
    iterate_data,
    split_events,
    write_event,
)
from radixway.core.pipeline import Chunks, ReportingChunks, Request, StreamBrokenError, TokenUsage
from radixway.routing.transports.hosted.base import Delta, ReplyReader, StreamRefusedError, decode_answer

UNREADABLE = (
    *(KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, msgspec.DecodeError),
)
"""Errors of reading an answer that is not what the provider's API says."""
_encode = msgspec.json.encode
_decode_event = msgspec.json.Decoder(dict[str, Any]).decode


class CompletionForm:
    """The fields that all parts of one chat completion share."""

    def __init__(self, request: Request, reader: ReplyReader, model: str) -> None:
        """`model`: its name where the provider does not say which one answered."""
        self._reader = reader
        self._model = model
        self._id = f"chatcmpl-{request.id}"
        self._created = int(time.time())
        self._tells_usage = wants_usage(request)

    def encode_reply(self, reply: Any) -> bytes:
        """Return the chat completion that a whole `reply` is. Raises `UNREADABLE`, StreamRefusedError."""
        message: dict[str, Any] = {"role": "assistant", "content": None}
        for delta in self._reader.read_reply(reply):
            _add_delta(message, delta)
        for call in message.get("tool_calls", ()):
            del call["index"]
        if message["content"] is None and "tool_calls" not in message:
            message["content"] = ""
        choice = {
            "index": 0,
            "message": message,
            "logprobs": None,
            "finish_reason": self._reader.finish_reason,
        }
        body = self._fields("chat.completion") | {"choices": [choice], "usage": self._reader.usage()}
        return _encode(body)

    def encode_delta(self, delta: Delta, finish_reason: str | None = None) -> bytes:
        """Return the event of a chunk with `delta`."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        chunk = self._fields("chat.completion.chunk") | {"choices": [choice]}
        return write_event(_encode(chunk | {"usage": None} if self._tells_usage else chunk))

    def encode_end(self) -> bytes:
        """Return the last events: the finish reason, usage where it is asked for, `[DONE]`."""
        events = self.encode_delta({}, self._reader.finish_reason)
        if self._tells_usage:
            fields = self._fields("chat.completion.chunk")
            events += write_event(_encode(fields | {"choices": [], "usage": self._reader.usage()}))
        return events + DONE_EVENT

    def _fields(self, kind: str) -> dict[str, Any]:
        model = self._reader.model or self._model
        return {"id": self._id, "object": kind, "created": self._created, "model": model}


def _add_delta(message: dict[str, Any], delta: Delta) -> None:
    for name, value in delta.items():
        known = message.get(name)
        message[name] = value if known is None else known + value


class ConvertedEvents(ReportingChunks):
    """The chunks of a chat completion that a provider's stream comes to."""

    def __init__(
        self,
        chunks: Chunks,
        worker: str,
        reader: ReplyReader,
        form: CompletionForm,
        hide_key: Callable[[str], str] = str,
    ) -> None:
        """`hide_key`: takes the provider's key out of its errors."""
        self._hide_key = hide_key
        self._chunks = chunks
        self._worker = worker
        self._reader = reader
        self._form = form
        self._ready = form.encode_delta({"role": "assistant", "content": ""})
        self._is_over = False
        self._failure: StreamRefusedError | StreamBrokenError | None = None
        """Why it ended, until the words that came with that are sent."""

    async def read_beginning(self) -> None:
        """Read up to the first words. Raises StreamRefusedError, StreamBrokenError: nothing was sent yet."""
        while not self._is_over:
            events = await self._read_more()
            if self._failure is not None:  # another worker may still answer
                raise self._failure
            self._ready += events
            if events:
                return

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._ready:
            if self._is_over:
                raise StopAsyncIteration
            try:
                self._ready = await self._read_more()
            except StreamRefusedError as error:
                raise StreamBrokenError(self._worker, self._hide_key(str(error))) from None
        ready, self._ready = self._ready, b""
        return ready

    async def aclose(self) -> None:
        await self._chunks.aclose()

    async def _read_more(self) -> bytes:
        """Return what the next chunk of the provider comes to, perhaps nothing."""
        if self._failure is not None:
            raise self._failure
        try:
            chunk = await anext(self._chunks)
        except (StopAsyncIteration, StreamBrokenError) as end:
            self._is_over = True
            if self._reader.finish_reason is None:
                if isinstance(end, StreamBrokenError):
                    raise
                raise StreamBrokenError(
                    self._worker, "it ended without a finish reason", truncated=True
                ) from None
            if self._reader.completion_tokens:  # else the provider has not said it
                self.reported = token_usage(self._reader)
            return self._form.encode_end()
        events = b""
        try:
            for delta in self._read_deltas(chunk):
                events += self._form.encode_delta(delta)
        except (StreamRefusedError, StreamBrokenError) as error:
            if not events:
                raise
            self._failure = error
        return events

    def _read_deltas(self, chunk: bytes) -> Iterator[Delta]:
        for data in iterate_data(chunk):
            try:
                yield from (delta for delta in self._reader.read_event(_decode_event(data)) if delta)
            except UNREADABLE as error:
                raise StreamBrokenError(
                    self._worker, f"an event cannot be read ({type(error).__name__})"
                ) from None


class PassedEvents(ReportingChunks):
    """OpenAI's own chunks, without the usage that only the gateway has asked for."""

    def __init__(self, chunks: Chunks, reader: ReplyReader, *, tells_usage: bool) -> None:
        self._chunks = chunks
        self._reader = reader
        self._tells_usage = tells_usage

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while True:
            chunk = await anext(self._chunks)
            if b'"usage"' in chunk and (chunk := self._note_usage(chunk)) == b"":
                continue
            return chunk

    async def aclose(self) -> None:
        await self._chunks.aclose()

    def _note_usage(self, chunk: bytes) -> bytes:
        """Read the usage in `chunk`; return the events that the client is to get."""
        kept = []
        for event in split_events(chunk):
            fields = decode_answer(event_data(event))
            if isinstance(fields, dict) and isinstance(fields.get("usage"), dict):
                for _ in self._reader.read_event(fields):
                    pass
                self.reported = token_usage(self._reader)
                if not self._tells_usage and not fields.get("choices"):
                    continue
            kept.append(event)
        return b"".join(kept)


def wants_usage(request: Request) -> bool:
    """Return whether the client asks for usage at the end of its stream."""
    options = request.body.get("stream_options") if request.stream and request.form is None else None
    return isinstance(options, dict) and options.get("include_usage") is True


def token_usage(reader: ReplyReader) -> TokenUsage:
    """Return what the answer used."""
    return TokenUsage(reader.prompt_tokens, reader.completion_tokens, reader.cached_tokens, tells_cached=True)
