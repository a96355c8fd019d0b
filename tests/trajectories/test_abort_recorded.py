"""A worker that aborts, behind a gateway that records: what it is asked again, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from support.generate_worker import ABORT, Script, hang, reply, so_far, until_idle
from support.odd_texts import GUIDE, guide
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Behaviour, Exchange, scripted_worker

PROMPT = "What is a radix tree?"
ASK = {"text": PROMPT, "session_id": "s", "sampling_params": {"max_new_tokens": 10}}
FIRST, SECOND = guide().encode(" A tree"), guide().encode(" of tokens.")


class Leaving(Script):
    """Notes when a client closes its connection in the middle of an answer."""

    def __init__(self, *replies: Any) -> None:
        super().__init__(*replies)
        self.left = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        await super().__call__(exchange)
        if self.hanging.is_set() and exchange.path == "/generate":
            self.left.set()


@asynccontextmanager
async def recording(script: Behaviour) -> AsyncIterator[RunningGateway]:
    """A gateway that records; at the end nothing is in flight and nothing is held."""
    section = {"enabled": True, "tokenizer": str(GUIDE), "abort": {"wait_s": 0}}
    async with (
        scripted_worker(script) as worker,
        running_gateway(worker.url, trajectories=section) as gateway,
    ):
        yield gateway
        await until_idle(gateway)
        trie = await gateway.gateway.recorder.tries.trie_for(None)
        trie.check()
        assert trie.store.held == 0


def shown(answer: dict) -> dict:
    return answer | {"text": guide().decode(answer["output_ids"])}


def parts(*, stream: bool) -> tuple[Any, Any]:
    first = shown(reply(FIRST, ABORT, version="1"))
    second = shown(reply(SECOND, version="2"))
    if not stream:
        return first, second
    begun = shown(so_far(*FIRST[:1], version="1"))
    return [begun, first], [second]


@pytest.mark.parametrize("stream", [False, True])
async def test_an_aborted_answer_is_resumed_with_its_tokens_and_recorded_once(stream):
    script = Script(*parts(stream=stream))
    async with recording(script) as gateway:
        async with gateway.client.post(gateway.url + "/generate", json=ASK | {"stream": stream}) as response:
            assert response.status == 200 and b"tokens" in await response.read()
        first, second = script.bodies
        ids = guide().encode(PROMPT)
        assert first["input_ids"] == ids and second["input_ids"] == [*ids, *FIRST]
        assert second["sampling_params"]["max_new_tokens"] == 10 - len(FIRST)
        assert first["rid"] == second["rid"] and "text" not in second
        text = PROMPT + guide().decode(FIRST + SECOND)
        for session in ({"session_id": "s"}, {}):
            status, told, _ = await gateway.post(
                "/retrieve_from_text", {"text": text, "strict": True, **session}
            )
            assert status == 200 and told["exact"] and told["tokens"] == [*ids, *FIRST, *SECOND]
        made = FIRST + SECOND
        assert told["loss_mask"] == [0] * len(ids) + [1] * len(made)
        assert told["rollout_logp"] == [0.0] * len(ids) + [-0.5 - token for token in made]
        assert told["versions"] == [None] * len(ids) + ["1"] * len(FIRST) + ["2"] * len(SECOND)
        trie = await gateway.gateway.recorder.tries.trie_for(None)
        assert trie.store.tokens == len(ids) + len(made), "recorded once"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("attempt", [1, 2])
async def test_a_client_that_leaves_is_told_to_the_worker_and_its_connection_is_closed(stream, attempt):
    first, _ = parts(stream=stream)
    script = Leaving(*([first] if attempt == 2 else []), [hang] if stream else hang)
    async with recording(script) as gateway:
        asking = asyncio.create_task(gateway.post("/generate", ASK | {"stream": stream, "rid": "mine"}))
        await script.hanging.wait()
        assert gateway.in_flight() == 1
        asking.cancel()
        async with asyncio.timeout(10):
            await script.told.wait()
            await script.left.wait()
    assert script.aborted == ["mine"] and len(script.bodies) == attempt


async def test_whoever_has_the_end_of_a_stream_finds_it_recorded():
    _, (second,) = parts(stream=True)
    text = PROMPT + guide().decode(SECOND)

    async def answer_and_linger(exchange: Exchange) -> None:
        await exchange.begin_stream()
        await exchange.chunk(b"data: " + json.dumps(second).encode() + b"\n\ndata: [DONE]\n\n")
        await exchange.until_peer_leaves()

    async with recording(answer_and_linger) as gateway:
        async with gateway.client.post(gateway.url + "/generate", json=ASK | {"stream": True}) as response:
            async for line in response.content:
                if line.startswith(b"data: [DONE]"):
                    break
            _, told, _ = await gateway.post("/retrieve_from_text", {"text": text, "session_id": "s"})
            assert told["exact"]


@pytest.mark.parametrize("is_whole", [False, True])
async def test_a_stream_that_is_cut_is_not_recorded_as_a_whole_one(is_whole):
    _, (second,) = parts(stream=True)
    begun = shown(so_far(*SECOND[:1]))

    async def answer(exchange: Exchange) -> None:
        await exchange.begin_stream()
        for event in (begun, second) if is_whole else (begun,):
            await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
        await has_begun.wait()
        await exchange.end_stream()

    has_begun = asyncio.Event()
    async with recording(answer) as gateway:
        url, headers = gateway.url + "/generate", {"x-request-id": "cut"}
        async with gateway.client.post(url, json=ASK | {"stream": True}, headers=headers) as response:
            await response.content.readuntil(b"\n\n")
            has_begun.set()
            assert (b"stream_broken" in await response.read()) is not is_whole
        _, journal = await gateway.get("/explain/cut")
        (recorded,) = [step for step in journal["steps"] if "recorded" in step]
        assert (recorded["recorded"], recorded["whole"]) == (True, is_whole)
        assert recorded["tokens"] == (len(SECOND) if is_whole else 1)
