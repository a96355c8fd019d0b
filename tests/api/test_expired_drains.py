"""What is still under way when a gateway's time for finishing requests is over: everybody is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

import radixway.bundled
from support.running_gateway import running_gateway
from support.scripted_worker import Exchange, scripted_worker

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
PLAIN: dict[str, Any] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"model": "m", "prompt": "hello"},
    "/generate": {"text": "hello"},
    "/v1/responses": {"model": "m", "input": "hello", "store": False},
}
ANTHROPIC = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "hello"}]}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has chats of its own."""
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))


class Stuck:
    """A worker that says one piece of an answer, where it is to stream, and then nothing."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        if exchange.json().get("stream"):
            await exchange.begin_stream()
            event = {
                "choices": [{"index": 0, "delta": {"content": "a"}, "text": "a", "finish_reason": None}],
                "text": "a",
            }
            await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
        self.asked.set()
        await exchange.until_peer_leaves()


@asynccontextmanager
async def ended_gateway(
    path: str, body: Any, *, stream: bool, **sections: Any
) -> AsyncIterator[aiohttp.ClientResponse]:
    """The answer to a call that was under way when its gateway ended without giving it time."""
    stuck = Stuck()
    async with scripted_worker(stuck) as worker, aiohttp.ClientSession() as client:
        sections |= {"gateway": {"drain_s": 0}}
        async with running_gateway(worker.url, **sections) as gateway:
            asking = asyncio.create_task(client.post(gateway.url + path, json=body))
            async with asyncio.timeout(20):
                await stuck.asked.wait()
                if stream:
                    answer = await asking
                    await answer.content.readany()
        async with asyncio.timeout(20):
            yield await asking


@pytest.mark.parametrize("path", PLAIN)
async def test_a_plain_caller_gets_a_503_in_words(path):
    async with ended_gateway(path, PLAIN[path], stream=False) as answer:
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert (await answer.json())["error"]["code"] == "server_stopping"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/generate"])
async def test_a_stream_ends_in_an_error_event(path):
    async with ended_gateway(path, PLAIN[path] | {"stream": True}, stream=True) as answer:
        assert answer.status == 200
        events = (await answer.content.read()).split(b"\n\n")  # to an end that is none by accident
        last = json.loads(events[-2].removeprefix(b"data: "))
        assert last["error"]["code"] == "server_stopping"


async def test_a_stream_of_a_response_ends_in_its_error_event():
    body = PLAIN["/v1/responses"] | {"stream": True}
    async with ended_gateway("/v1/responses", body, stream=True) as answer:
        said = (await answer.content.read()).decode()
        events = [json.loads(line[6:]) for line in said.splitlines() if line.startswith("data: {")]
        assert [event["type"] for event in events[-2:]] == ["error", "response.failed"]
        assert events[-2]["code"] == "server_stopping"


async def test_a_kept_response_of_which_somebody_reads_ends_in_an_error_event():
    body = {"model": "m", "input": "hello", "stream": True, "background": True}
    async with ended_gateway("/v1/responses", body, stream=True) as answer:
        said = (await answer.content.read()).decode()
        events = [json.loads(line[6:]) for line in said.splitlines() if line.startswith("data: {")]
        assert (events[-1]["type"], events[-1]["code"]) == ("error", "server_stopping")


async def test_a_call_of_fastapis_gets_a_503_in_words():
    """One that is at the workers."""
    async with ended_gateway("/update_weights_from_disk", {"model_path": "x"}, stream=False) as answer:
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert (await answer.json())["error"]["code"] == "server_stopping"


async def test_an_agents_call_is_told_in_its_protocols_words():
    guide = str(Path(radixway.bundled.__file__).parent / "guide")
    trajectories = {"tokenizer": guide}
    async with ended_gateway(
        "/sessions/s/v1/messages", ANTHROPIC, stream=False, trajectories=trajectories
    ) as answer:
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        told = await answer.json()
        assert (told["type"], "stopping" in told["error"]["message"]) == ("error", True)
