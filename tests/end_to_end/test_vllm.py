"""Real vLLM servers behind a gateway: what they publish, hold, report and abort, and how they are lost."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from radixway.routing import KvEventsState, WorkerState
from radixway.routing.block_hash import hash_token_blocks, pack_tokens
from support.running_gateway import FAST_HEALTH, RunningGateway, running_gateway
from support.vllm_server import BLOCK_TOKENS, VllmServer, running_servers, write_model

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

BLOCKS = 80


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def servers(model: Path) -> Iterator[list[VllmServer]]:
    """Two servers with small caches. The gateway connects to one publisher, the other connects to it."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        both = [
            VllmServer(model, Path(one), BLOCKS),
            VllmServer(model, Path(other), BLOCKS, connects=True),
        ]
        with running_servers(*both):
            yield both


@asynccontextmanager
async def gateway_before(*servers: VllmServer, **routing: Any) -> AsyncIterator[RunningGateway]:
    """A gateway that knows what the caches of `servers` hold."""
    workers = [server.section for server in servers]
    urls = [server.url for server in servers]
    async with running_gateway(*urls, workers=workers, routing={"health": FAST_HEALTH} | routing) as running:
        await until_known(running, *servers)
        yield running


def known_hashes(running: RunningGateway, server: VllmServer) -> set[int]:
    """The engine's hashes that the gateway takes `server` to hold."""
    worker = running.gateway.registry.get_worker(server.url)
    (sequencer,) = running.gateway.kv_events._feeds[worker].worker_feed.sequencers
    return set(sequencer.blocks._names)


async def until_known(running: RunningGateway, *servers: VllmServer) -> None:
    """Wait until the gateway knows of each of `servers` exactly what its cache holds."""
    for server in servers:
        worker = running.gateway.registry.get_worker(server.url)
        held: set[int] = set()
        known: set[int] = set()
        for _ in range(200):
            held, known = server.held_hashes(), known_hashes(running, server)
            if worker.kv_events.state is KvEventsState.FOLLOWING and held == known:
                break
            await asyncio.sleep(0.1)  # nothing tells when a batch is under way
        assert held == known, f"{worker.kv_events}: {len(held - known)} unknown, {len(known - held)} not held"
        assert worker.kv_events.state is KvEventsState.FOLLOWING


async def complete(running: RunningGateway, ids: list[int], **fields: Any) -> tuple[int, int, str]:
    """Answer `ids`; give the cached tokens that were expected and found, and the worker."""
    body = {"model": "m", "prompt": ids, "max_tokens": 4, "temperature": 0, "ignore_eos": True, **fields}
    status, answer, headers = await running.post("/v1/completions", body)
    assert status == 200, answer
    _, journal = await running.get(f"/explain/{headers['x-request-id']}")
    (select,) = [step for step in journal["steps"] if step["step"] == "select"]
    cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
    return select["expected_cached_tokens"], cached, headers["x-radixway-worker"]


def prompts(seed: int, count: int) -> Iterator[list[int]]:
    """Prompts that begin alike at any place, many of them a whole number of blocks long."""
    draw = random.Random(seed)
    roots = [[draw.randrange(5, 500) for _ in range(640)] for _ in range(4)]
    for _ in range(count):
        root, tail = draw.choice(roots), [draw.randrange(5, 500) for _ in range(draw.randrange(100))]
        prompt = root[: draw.randrange(20, 640)] + tail
        if draw.random() < 0.3:
            prompt = prompt[: max(1, len(prompt) // BLOCK_TOKENS) * BLOCK_TOKENS]
        yield prompt


async def test_the_index_is_the_cache_and_what_is_expected_is_what_is_found(servers):
    """While blocks come, go and come again in caches that hold three or four of these prompts."""
    async with gateway_before(*servers) as running:
        found = []
        for number, prompt in enumerate(prompts(1, 60)):
            salt = {"cache_salt": f"tenant {number % 2}"} if number % 5 == 0 else {}
            found.append(await complete(running, prompt, **salt))
            await until_known(running, *servers)
        wrong = [(expected, cached) for expected, cached, _ in found if expected != cached]
        assert not wrong, f"{len(wrong)} of {len(found)}"
        assert sum(cached > 0 for _, cached, _ in found) > 20
        assert {worker for _, _, worker in found} == {server.url[7:] for server in servers}
        counts = running.gateway.kv_events.counts
        assert counts.removed > 100 and counts.stored > 40
        assert not counts.unreadable and not counts.ignored and not counts.gaps and not counts.orphaned
        running.gateway.selector.index.check()
        for server in servers:
            worker = running.gateway.registry.get_worker(server.url)
            assert (worker.kv_tokens, worker.block_tokens) == (BLOCKS * BLOCK_TOKENS, BLOCK_TOKENS)


async def test_copies_of_answers_and_of_last_blocks_are_counted_as_the_cache_does(servers):
    """Prompts of whole blocks again and again, at once, and the same answers: vLLM holds copies of these."""
    draw = random.Random(2)
    async with gateway_before(*servers) as running:
        for _ in range(6):
            prompt = [draw.randrange(5, 500) for _ in range(4 * BLOCK_TOKENS)]
            for at_once in (1, 3):
                asked = (complete(running, prompt, max_tokens=80) for _ in range(at_once))
                await asyncio.gather(*asked)
            await until_known(running, *servers)
        for prompt in prompts(3, 25):  # until all of that is gone again
            await complete(running, prompt)
        await until_known(running, *servers)


async def test_chats_are_tokenized_as_vllm_does_and_their_answers_are_found_again(servers):
    async with gateway_before(*servers) as running:
        running.gateway.tokenizers.wait_loaded()
        messages = [{"role": "system", "content": "You know one book. 你好 😀 " * 12}]
        for turn in range(5):
            messages.append({"role": "user", "content": f"What is in chapter {turn}?"})
            fields = {"messages": messages, "max_tokens": 20, "temperature": 0, "ignore_eos": True}
            status, answer, headers = await running.post("/v1/chat/completions", {"model": "m", **fields})
            assert status == 200, answer
            _, journal = await running.get(f"/explain/{headers['x-request-id']}")
            (select,) = [step for step in journal["steps"] if step["step"] == "select"]
            assert select["prompt"]["tokens"] == answer["usage"]["prompt_tokens"]
            cached = answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            assert select["expected_cached_tokens"] == cached
            assert cached > 0 or turn == 0
            messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
            await until_known(running, *servers)


async def test_clients_cannot_fill_the_index_with_blocks_that_are_gone(servers):
    draw = random.Random(4)
    prompt = [draw.randrange(5, 500) for _ in range(10 * BLOCK_TOKENS + 5)]
    xargs = {"kv_cache_report_mode": "full", "session_id": "s"}
    async with gateway_before(*servers) as running:
        for _ in range(4):
            await complete(running, prompt, vllm_xargs=xargs)
        told = running.gateway.kv_events.counts.stored
        await until_known(running, *servers)
        for server in servers:  # past the gateway the mode works, and does no harm
            for _ in range(3):
                await ask(running, server, prompt, vllm_xargs=xargs)
            for _ in range(4):
                await ask(running, server, [draw.randrange(5, 500) for _ in range(900)])
        await until_known(running, *servers)
        stored = 1 + 2 * 4  # at the server that had not seen it, and all others
        assert running.gateway.kv_events.counts.stored > told + stored, "nothing was told again"
        names = hash_token_blocks(pack_tokens(prompt), 16)
        found = running.gateway.selector.index.match_prefix(names, float("inf")).device
        assert found == {}, "after 3,600 other tokens nothing is left in a cache of 2,560"


async def ask(running: RunningGateway, server: VllmServer, ids: list[int], **fields: Any) -> None:
    """Send `ids` past the gateway."""
    body = {"model": "m", "prompt": ids, "max_tokens": 1, **fields}
    async with running.client.post(f"{server.url}/v1/completions", json=body) as response:
        assert response.status == 200, await response.text()


async def test_expected_time_finds_far_more_in_the_caches_than_round_robin(servers):
    """Six beginnings of 20 blocks, of which a cache of 80 holds three."""
    cached = {}
    for seed, policy in ((6, "round_robin"), (7, "expected_time")):
        async with gateway_before(*servers, policy=policy) as running:
            draw = random.Random(seed)
            roots = [[draw.randrange(5, 500) for _ in range(20 * BLOCK_TOKENS)] for _ in range(6)]
            asked = [root + [draw.randrange(5, 500) for _ in range(20)] for root in roots * 8]
            draw.shuffle(asked)
            found = 0
            for start in range(0, len(asked), 2):
                pair = (plain_cached(running, prompt) for prompt in asked[start : start + 2])
                found += sum(await asyncio.gather(*pair))
            cached[policy] = found
    assert cached["expected_time"] > 1.2 * cached["round_robin"], cached


async def plain_cached(running: RunningGateway, ids: list[int]) -> int:
    body = {"model": "m", "prompt": ids, "max_tokens": 2, "temperature": 0, "ignore_eos": True}
    status, answer, _ = await running.post("/v1/completions", body)
    assert status == 200, answer
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


async def test_a_client_that_leaves_stops_its_answer(servers):
    async with gateway_before(*servers) as running:
        before = total(servers, "vllm:generation_tokens_total")
        body = {"model": "m", "prompt": [7] * 40, "max_tokens": 900, "ignore_eos": True, "stream": True}
        url = f"{running.url}/v1/completions"
        async with running.client.post(url, json=body) as response:
            assert response.status == 200
            await response.content.readany()
            assert total(servers, "vllm:num_requests_running") == 1
        for _ in range(300):
            if not total(servers, "vllm:num_requests_running"):
                break
            await asyncio.sleep(0.1)
        assert total(servers, "vllm:num_requests_running") == 0
        assert 0 < total(servers, "vllm:generation_tokens_total") - before < 900
        assert running.in_flight() == 0


def total(servers: list[VllmServer], metric: str) -> float:
    return sum(server.metric(metric) for server in servers)


async def test_its_own_metrics_are_among_the_gateways(servers):
    async with gateway_before(*servers) as running:
        async with running.client.get(f"{running.url}/metrics/prometheus") as response:
            page = await response.text()
        for server in servers:
            name = server.url.removeprefix("http://")
            for family in ("running", "waiting", "kv_usage_ratio"):
                assert f'radixway_worker_{family}{{worker="{name}"}} 0.0' in page, page
        _, listing = await running.get("/list_workers")
        for worker in listing["workers"]:
            assert (worker["kv_tokens"], worker["block_tokens"]) == (BLOCKS * BLOCK_TOKENS, BLOCK_TOKENS)
            assert worker["kv_events"]["state"] == "following"


async def test_a_server_killed_under_load_and_started_again_is_forgotten_and_known_anew(servers):
    lost = servers[0]
    async with gateway_before(*servers) as running:
        registry = running.gateway.registry
        worker = registry.get_worker(lost.url)
        outcomes: list[str] = []
        ended = asyncio.Event()

        async def until(holds: Callable[[], bool]) -> None:
            async with asyncio.timeout(60):
                while not holds():  # noqa: ASYNC110 - most of it nobody tells
                    await asyncio.sleep(0.05)

        async def keep_asking(seed: int) -> None:
            for prompt in prompts(seed, 10_000):
                if ended.is_set():
                    return
                outcomes.append(await stream(running, prompt))
                await asyncio.sleep(0.5)  # the server that starts needs the processors too

        clients = [asyncio.create_task(keep_asking(100 + number)) for number in range(4)]
        await until(lambda: len(outcomes) >= 20 and lost.metric("vllm:num_requests_running") >= 1)
        lost.kill()
        await running.until(lost.url, WorkerState.DOWN)
        await until(lambda: worker.kv_events.state is KvEventsState.DEGRADED)
        index = running.gateway.selector.index
        assert not index.blocks_in_tier(worker.slot), "nothing that it held counts while it is away"
        lost.start()
        await asyncio.to_thread(lost.wait_ready)
        await running.until(lost.url, WorkerState.READY)
        came_back = len(outcomes)
        await until(lambda: len(outcomes) >= came_back + 20)
        ended.set()
        await asyncio.gather(*clients)
        assert outcomes.count("lost before its first byte") == 0
        assert outcomes.count("broken off") <= len(clients), "only those that had begun there"
        assert outcomes.count("whole") >= 40
        await until_known(running, *servers)
        assert lost.metric("vllm:request_success_total") > 0, "it is asked again"


async def stream(running: RunningGateway, ids: list[int]) -> str:
    """Stream an answer; say how that ended."""
    body = {"model": "m", "prompt": ids, "max_tokens": 24, "ignore_eos": True, "stream": True}
    async with running.client.post(f"{running.url}/v1/completions", json=body) as response:
        if response.status != 200:
            return "lost before its first byte"
        text = await response.text()
    return "whole" if text.rstrip().endswith("data: [DONE]") and "error" not in text else "broken off"
