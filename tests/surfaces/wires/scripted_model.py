"""A model that says what a test scripts, behind the wires and a real HTTP server: what a session will be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from radixway.parsers import AnswerReader, Family
from radixway.surfaces.wires import (
    Answer,
    AnthropicWire,
    Ask,
    ChatWire,
    CompletionsWire,
    Ending,
    Growth,
    Head,
    ResponsesWire,
    TokenScore,
    Wire,
)
from radixway.web import AppServer, HttpError, bind, read_body

QWEN = Family("hermes", "qwen3")
PROMPT_IDS = (11, 12, 13, 14, 15)
CACHED = 2

WIRES: dict[str, Wire] = {
    "/v1/chat/completions": ChatWire(),
    "/v1/completions": CompletionsWire(),
    "/v1/responses": ResponsesWire(),
    "/v1/messages": AnthropicWire(),
}


def head() -> Head:
    return Head(id="7", model="m", created=1_700_000_000, prompt_ids=PROMPT_IDS)


def reader_of(ask: Ask) -> AnswerReader:
    """A reader of a Qwen model's answer, whose prompt shuts the thinking off where the client says so."""
    shut = "<think>\n\n</think>\n\n" if ask.template_arguments.get("enable_thinking") is False else ""
    return ask.reading(QWEN, f"<|im_start|>assistant\n{shut}").reader()


def growths(ask: Ask, pieces: Sequence[str]) -> list[Growth]:
    """An answer that comes in these pieces, each of which is one token."""
    reader = reader_of(ask)
    last = len(pieces) - 1
    return [
        Growth(
            reader.read(piece, last=number == last),
            [100 + number],
            [TokenScore(piece.encode(), -0.5, ((b"x", -1.5),))],
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

    def ending(self) -> Ending:
        return Ending(
            self.reason,
            len(PROMPT_IDS),
            len(self.pieces),
            cached_tokens=CACHED,
            stop=self.stop,
        )


def whole_reply(wire: Wire, ask: Ask, script: Script) -> bytes:
    answer = Answer()
    for growth in growths(ask, script.pieces):
        answer.grow(growth)
    return wire.whole(ask, head(), answer, script.ending())


def event_stream(wire: Wire, ask: Ask, script: Script) -> list[bytes]:
    writer = wire.events(ask, head())
    stream = [writer.begin()]
    stream += [writer.grow(growth) for growth in growths(ask, script.pieces)]
    stream.append(writer.end(script.ending()) if script.breaks is None else writer.fail(script.breaks))
    return [events for events in stream if events]


@dataclass
class ScriptedModel:
    """An ASGI application; answers each request with the next script."""

    scripts: list[Script] = field(default_factory=list)
    asks: list[Ask] = field(default_factory=list)
    url: str = ""

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "lifespan":
            return
        wire = WIRES[scope["path"]]
        try:
            ask = wire.read(await read_body(scope, receive, 1_000_000))
        except HttpError as error:
            await self._reply(send, error.status, [wire.error(error)])
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
    server = AppServer(model, bind("127.0.0.1", 0), drain_s=1)
    ready = asyncio.Event()
    serving = asyncio.create_task(server.serve(ready.set))
    await asyncio.wait({serving, asyncio.create_task(ready.wait())}, return_when=asyncio.FIRST_COMPLETED)
    model.url = server.url
    try:
        yield model
    finally:
        server.stop()
        await serving
