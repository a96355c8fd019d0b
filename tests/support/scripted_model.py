"""A model that says what a test scripts, behind the wires and a real HTTP server: what a session will be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from radixway.core.http import AppServer, HttpError, bind_tcp, read_body
from radixway.core.parsers import AnswerTextReader, ModelFamily
from radixway.core.protocols import (
    AnswerDelta,
    AnthropicAdapter,
    ChatAdapter,
    CompletionsAdapter,
    FinishInfo,
    GeneratedAnswer,
    NormalizedRequest,
    ProtocolAdapter,
    ReplyMetadata,
    ResponsesAdapter,
    SampledTokenLogprob,
)

QWEN = ModelFamily("hermes", "qwen3")
PROMPT_IDS = (11, 12, 13, 14, 15)
CACHED = 2

WIRES: dict[str, ProtocolAdapter] = {
    "/v1/chat/completions": ChatAdapter(),
    "/v1/completions": CompletionsAdapter(),
    "/v1/responses": ResponsesAdapter(),
    "/v1/messages": AnthropicAdapter(),
}


def head() -> ReplyMetadata:
    return ReplyMetadata(id="7", model="m", created=1_700_000_000, prompt_ids=PROMPT_IDS)


def reader_of(ask: NormalizedRequest) -> AnswerTextReader:
    """A reader of a Qwen model's answer, whose prompt shuts the thinking off where the client says so."""
    shut = "<think>\n\n</think>\n\n" if ask.template_arguments.get("enable_thinking") is False else ""
    return ask.answer_format(QWEN, f"<|im_start|>assistant\n{shut}").create_reader()


def growths(ask: NormalizedRequest, pieces: Sequence[str]) -> list[AnswerDelta]:
    """An answer that comes in these pieces, each of which is one token."""
    reader = reader_of(ask)
    last = len(pieces) - 1
    return [
        AnswerDelta(
            reader.read_parts(piece, last=number == last),
            [100 + number],
            [SampledTokenLogprob(piece.encode(), -0.5, ((b"x", -1.5),))],
        )
        for number, piece in enumerate(pieces)
    ]


@dataclass
class Script:
    """What the model says, in these pieces, and how it ends."""

    pieces: Sequence[str]
    reason: str = "stop"
    stop: str | None = None
    breaks: HttpError | None = None
    """The stream breaks off with this, after all pieces."""

    def ending(self) -> FinishInfo:
        return FinishInfo(
            self.reason,
            len(PROMPT_IDS),
            len(self.pieces),
            cached_tokens=CACHED,
            stop=self.stop,
        )


def whole_reply(wire: ProtocolAdapter, ask: NormalizedRequest, script: Script) -> bytes:
    answer = GeneratedAnswer()
    for growth in growths(ask, script.pieces):
        answer.apply_delta(growth)
    return wire.encode_reply(ask, head(), answer, script.ending())


def event_stream(wire: ProtocolAdapter, ask: NormalizedRequest, script: Script) -> list[bytes]:
    writer = wire.create_event_writer(ask, head())
    stream = [writer.encode_start()]
    stream += [writer.encode_delta(growth) for growth in growths(ask, script.pieces)]
    stream.append(
        writer.encode_end(script.ending()) if script.breaks is None else writer.encode_failure(script.breaks)
    )
    return [events for events in stream if events]


@dataclass
class ScriptedModel:
    """An ASGI application; answers each request with the next script."""

    scripts: list[Script] = field(default_factory=list)
    asks: list[NormalizedRequest] = field(default_factory=list)
    url: str = ""

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            return
        wire = WIRES[scope["path"]]
        try:
            ask = wire.parse_request(await read_body(scope, receive, 1_000_000))
        except HttpError as error:
            await self._reply(send, error.status, [wire.encode_error_body(error)])
            return
        self.asks.append(ask)
        script = self.scripts.pop(0)
        if ask.stream:
            await self._reply(send, 200, event_stream(wire, ask, script), kind=b"text/event-stream")
        else:
            await self._reply(send, 200, [whole_reply(wire, ask, script)])

    async def _reply(self, send, status, chunks, kind=b"application/json") -> None:
        headers = [(b"content-type", kind)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for chunk in chunks:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@asynccontextmanager
async def scripted_model(*scripts: Script) -> AsyncIterator[ScriptedModel]:
    """A server of these scripts on a socket of its own."""
    model = ScriptedModel([*scripts])
    server = AppServer(model, bind_tcp("127.0.0.1", 0), drain_s=1)
    ready = asyncio.Event()
    serving = asyncio.create_task(server.serve(ready.set))
    await asyncio.wait({serving, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
    model.url = server.url
    try:
        yield model
    finally:
        server.stop()
        await serving
