"""slime's rollout, by its own router's calls and by those of SGLang's: engines join, sample, abort, leave."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tokenizers import Tokenizer

import radixway.bundled
from support.engine_process import engine_process
from support.ported_cases import ported
from support.slime_rollout import GROUP_SIZE, SlimeRollout

pytestmark = pytest.mark.slow

SOURCE = "slime/rollout/sglang_rollout.py"
GUIDE = Path(radixway.bundled.__file__).parent / "guide"
PARAMS = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": -1,
    "stop": None,
    "stop_token_ids": None,
    "skip_special_tokens": False,
    "no_stop_trim": True,
    "spaces_between_special_tokens": False,
}
SHORT, LONG = 8, 2000


@asynccontextmanager
async def slime_router():
    """The URL of the router as slime starts it, and a client."""
    flags = ("--sglang-router-ip", "127.0.0.1", "--sglang-router-port", "0", "--hf-checkpoint", str(GUIDE))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "radixway", "slime-router", *flags), stdout=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(120):
            line = (await process.stdout.readline()).decode()
        async with aiohttp.ClientSession() as client:
            yield line.split()[1], client
    finally:
        process.terminate()
        await process.wait()


class SlimeCalls:
    """How engines join and leave with `--use-slime-router`."""

    lists = "/list_workers"

    def __init__(self, router: str, client: aiohttp.ClientSession) -> None:
        self.router, self.client = router, client

    async def add(self, url: str) -> None:
        async with self.client.post(f"{self.router}/add_worker?url={url}") as response:
            response.raise_for_status()

    async def remove(self, url: str) -> None:
        async with self.client.post(f"{self.router}/remove_worker?url={url}") as response:
            response.raise_for_status()


class SGLangCalls(SlimeCalls):
    """How they join and leave without: by the calls of SGLang's router."""

    lists = "/workers"

    async def add(self, url: str) -> None:
        payload = {"url": url, "worker_type": "regular"}
        async with self.client.post(f"{self.router}/workers", json=payload) as response:
            response.raise_for_status()

    async def remove(self, url: str) -> None:
        async with self.client.get(f"{self.router}/workers") as response:
            workers = (await response.json())["workers"]
        (found,) = (worker["id"] for worker in workers if worker["url"] == url)
        async with self.client.delete(f"{self.router}/workers/{found}") as response:
            response.raise_for_status()


def payload(prompt: list[int], tokens: int, **params: Any) -> dict[str, Any]:
    sampling = PARAMS | {"max_new_tokens": tokens} | params
    return {"input_ids": prompt, "sampling_params": sampling, "return_logprob": True}


@pytest.mark.parametrize(
    "calls",
    [
        pytest.param(SlimeCalls, marks=ported(SOURCE, "generate_rollout, --use-slime-router")),
        pytest.param(SGLangCalls, marks=ported(SOURCE, "generate_rollout, sglang_router")),
    ],
    ids=["slime-router", "sglang-router"],
)
async def test_a_rollout_from_the_first_engine_to_the_last(calls):
    prompt = Tokenizer.from_file(str(GUIDE / "tokenizer.json")).encode("What is a radix tree?").ids
    async with AsyncExitStack() as running:
        engines = [running.enter_context(engine_process())[0] for _ in range(2)]
        router, client = await running.enter_async_context(slime_router())
        membership = calls(router, client)
        for engine in engines:
            async with client.get(f"{engine}/health_generate") as response:
                response.raise_for_status()
            await membership.add(engine)
        rollout = SlimeRollout(router, client, calls.lists)
        assert sorted(await rollout.list_urls()) == sorted(engines)

        async def until_both_sample() -> None:
            async with asyncio.timeout(60):
                while not all(await asyncio.gather(*map(running_requests, engines))):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)

        async def running_requests(engine: str) -> int:
            async with client.get(f"{engine}/v1/loads?include=core,disagg,queues") as response:
                return sum(load["num_running_reqs"] for load in (await response.json())["loads"])

        short, long = payload(prompt, SHORT), payload(prompt, LONG, ignore_eos=True)
        finished, partial = await rollout.run([short, short, long, long], 2, until_both_sample)
        for sample in (sample for group in finished for sample in group):
            assert sample.status in ("COMPLETED", "TRUNCATED")
            assert 0 < len(sample.tokens) == len(sample.logprobs) <= SHORT
        left = [sample for group in partial for sample in group]
        assert len(left) == 2 * GROUP_SIZE
        assert {sample.status for sample in left} == {"ABORTED"}
        assert all(len(sample.tokens) == len(sample.logprobs) < LONG for sample in left)
        assert sum(bool(sample.tokens) for sample in left) > 0, "what was sampled comes back"

        # Partial rollout: the next one goes on from what there is, by a key where the router has one.
        begun = max(left, key=lambda sample: len(sample.tokens)).tokens
        goes_on = await rollout.generate(
            payload([*prompt, *begun], SHORT, ignore_eos=True), {"X-SMG-Routing-Key": "sample-1"}
        )
        assert goes_on.status == "TRUNCATED" and len(goes_on.tokens) == SHORT

        await membership.remove(engines[0])
        assert await rollout.list_urls() == [engines[1]]
        assert (await rollout.generate(short)).tokens
