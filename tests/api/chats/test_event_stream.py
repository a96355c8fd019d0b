"""An answer as server-sent events, over ASGI alone."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from radixway.api.chats.event_stream import ChatEventStream
from radixway.chat import published_shapes
from radixway.chat.records import Message, MessageState, Role
from radixway.chat.service import ChatService
from radixway.chat.token_log import TokenLog
from radixway.core.config import ChatConfig
from radixway.core.http import ServerCounts, ServerLimits
from radixway.core.http.connections import STATE, ConnectionState

_NONE = dict.fromkeys(Message.__slots__)
ANSWER = Message(
    **_NONE | {"id": "a", "chat_id": "c", "role": Role.ASSISTANT, "state": MessageState.COMPLETE, "score": 0}
)


@dataclass
class Client:
    """Takes a stream."""

    gone: asyncio.Event = field(default_factory=asyncio.Event)
    sent: asyncio.Queue[MutableMapping[str, Any]] = field(default_factory=asyncio.Queue)

    async def receive(self) -> MutableMapping[str, Any]:
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def take(self, stream: ChatEventStream) -> None:
        await stream({"type": "http"}, self.receive, self.sent.put)


@pytest.fixture
def room(tmp_path: Path) -> ChatService:
    async def road(_: Any) -> Any:
        raise AssertionError("nothing is asked of workers")

    return ChatService(ChatConfig(ping_s=0.001), tmp_path, road, tuple)


def lines(*told: tuple[int, bytes]) -> bytes:
    return b"".join(b"id: %d\r\ndata: %b\r\n\r\n" % each for each in told)


async def test_what_is_there_is_one_write_and_the_stream_ends_with_it(room: ChatService) -> None:
    log, client = TokenLog(), Client()
    words = [published_shapes.encode_token(f"w{number}") for number in range(40)]
    log.append_events("a", 1, words)
    await log.end_log("a", b'"the end"', 1)
    async with asyncio.timeout(10):
        await client.take(ChatEventStream(room, ANSWER, log.follow_log("a")))
    head = client.sent.get_nowait()
    assert dict(head["headers"])[b"content-type"] == b"text/event-stream; charset=utf-8"
    whole = lines(*enumerate([*words, b'"the end"'], start=1))
    assert [client.sent.get_nowait()["body"] for _ in range(client.sent.qsize())] == [whole, b""]


async def test_a_client_that_leaves_is_listened_for_no_more(room: ChatService) -> None:
    log, client = TokenLog(), Client()
    log.append_events("a", 1, [published_shapes.encode_token("w")])
    taking = asyncio.create_task(client.take(ChatEventStream(room, ANSWER, log.follow_log("a"))))
    async with asyncio.timeout(10):
        assert (await client.sent.get())["type"] == "http.response.start"
        assert (await client.sent.get())["body"] == lines((1, published_shapes.encode_token("w")))
        assert log.list_followed() == ["a"]
        client.gone.set()
        await taking
    assert log.list_followed() == []


async def test_a_server_that_ends_ends_the_stream_and_not_the_answer(room: ChatService) -> None:
    log, client = TokenLog(), Client()
    log.append_events("a", 1, [published_shapes.encode_token("w")])
    state = ConnectionState(ServerLimits(), ServerCounts())
    scope: dict[str, Any] = {"type": "http"}
    scope[STATE] = state
    stream = ChatEventStream(room, ANSWER, log.follow_log("a"))
    taking = asyncio.create_task(stream(scope, client.receive, client.sent.put))
    async with asyncio.timeout(10):
        assert (await client.sent.get())["type"] == "http.response.start"
        assert (await client.sent.get())["body"] == lines((1, published_shapes.encode_token("w")))
        state.is_ending = True
        taking.cancel()
        await taking
    assert [client.sent.get_nowait() for _ in range(client.sent.qsize())] == [
        {"type": "http.response.body", "body": b""}
    ]
    assert log.list_followed() == []


async def test_silence_has_signs_of_life_and_then_the_words_go_on(room: ChatService) -> None:
    log, client = TokenLog(), Client()
    taking = asyncio.create_task(client.take(ChatEventStream(room, ANSWER, log.follow_log("a"))))
    async with asyncio.timeout(10):
        await client.sent.get()
        assert [(await client.sent.get())["body"] for _ in range(2)] == [b": ping\r\n\r\n"] * 2
        log.append_events("a", 1, [published_shapes.encode_token("w")])
        await log.end_log("a", b'"the end"', 1)
        await taking
    told = b"".join(client.sent.get_nowait()["body"] for _ in range(client.sent.qsize()))
    assert told.replace(b": ping\r\n\r\n", b"") == lines(
        (1, published_shapes.encode_token("w")), (2, b'"the end"')
    )
