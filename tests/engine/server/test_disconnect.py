"""A client that leaves frees its place in the engine at once. Raw sockets, so that leaving is leaving."""

import asyncio
import json
import threading
from typing import Any

import pytest

from support.server_served import Served

pytestmark = pytest.mark.asyncio(loop_scope="session")

CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}]}


async def post_raw(
    served: Served, path: str, body: dict[str, Any]
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection with this request on it."""
    host, port = served.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    raw = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(raw)}\r\n\r\n"
    writer.write(head.encode() + raw)
    await writer.drain()
    return reader, writer


async def until_aborted(served: Served, count: int = 1) -> None:
    """Wait for the engine to be told of `count` aborts."""
    for _ in range(count):
        await served.engine.aborted.get()
    assert not served.engine.running


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("hold_after", [0, 2])
async def test_leaving_a_chat_aborts_it(served: Served, stream: bool, n: int, hold_after: int) -> None:
    served.engine.hold_after = hold_after
    reader, writer = await post_raw(served, "/v1/chat/completions", {**CHAT, "stream": stream, "n": n})
    await served.engine.holding.wait()
    if stream and hold_after:
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    assert len(served.engine.running) == n
    writer.close()
    await until_aborted(served, n)


@pytest.mark.parametrize("stream", [False, True])
async def test_leaving_a_generate_batch_aborts_all_of_it(served: Served, stream: bool) -> None:
    served.engine.hold_after = 1
    _, writer = await post_raw(served, "/generate", {"text": ["a", "b", "c"], "stream": stream})
    await served.engine.holding.wait()
    writer.close()
    await until_aborted(served, 3)


async def test_leaving_a_completion_aborts_it(served: Served) -> None:
    served.engine.hold_after = 1
    _, writer = await post_raw(served, "/v1/completions", {"prompt": ["a", "b"], "stream": True})
    await served.engine.holding.wait()
    writer.transport.abort()  # a reset, not a goodbye
    await until_aborted(served, 2)


async def test_leaving_while_texts_are_tokenized_ends_it_with_the_one_at_hand(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = asyncio.get_running_loop()
    begun: asyncio.Queue[str] = asyncio.Queue()
    go_on = threading.Event()

    def encode(text: str, **_: bool) -> list[int]:
        loop.call_soon_threadsafe(begun.put_nowait, text)
        go_on.wait()
        return [1]

    monkeypatch.setattr(served.engine.tokenizer, "encode", encode)
    _, writer = await post_raw(served, "/v1/tokenize", {"prompt": ["a" * 5_000, "b" * 5_000]})
    assert (await begun.get())[0] == "a"
    writer.close()
    while '{path="/v1/tokenize",status="499"}' not in (await served.http.get("/metrics")).text:
        pass
    go_on.set()
    assert (await served.post("/tokenize", {"prompt": "c" * 10_000})).status_code == 200
    assert [begun.get_nowait()[0] for _ in range(begun.qsize())] == ["c"]


async def test_leaving_before_the_body_is_complete_runs_nothing(served: Served) -> None:
    host, port = served.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n{")
    await writer.drain()
    writer.close()
    await writer.wait_closed()
    assert (await served.chat()).status_code == 200
    assert len(served.engine.submitted) == 1


async def test_a_connection_serves_the_next_request_after_a_stream(served: Served) -> None:
    reader, writer = await post_raw(served, "/v1/chat/completions", {**CHAT, "stream": True})
    await reader.readuntil(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    raw = json.dumps(CHAT).encode()
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(raw) + raw
    )
    assert (await reader.readline()).startswith(b"HTTP/1.1 200")
    writer.close()
