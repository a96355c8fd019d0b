"""Slime's rollout loop, as its `sglang_rollout.py` runs it: sample groups, gather enough, abort the rest."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

GROUP_SIZE = 2


@dataclass
class Sample:
    """One answer, with the status that slime gives it."""

    tokens: list[int]
    status: str
    logprobs: list[float] = field(default_factory=list)


@dataclass
class SlimeRollout:
    """Asks `router` for answers and aborts at the workers themselves, whose URLs the router lists."""

    router: str
    client: aiohttp.ClientSession
    lists: str = "/list_workers"
    """The path that lists the workers: `/workers` where the router is SGLang's."""

    async def generate(self, payload: dict[str, Any], headers: dict[str, str] | None = None) -> Sample:
        """One answer; `finish_reason.type` becomes the sample's status."""
        async with self.client.post(f"{self.router}/generate", json=payload, headers=headers) as response:
            assert response.status == 200, await response.text()
            meta = (await response.json())["meta_info"]
        status = {"length": "TRUNCATED", "abort": "ABORTED", "stop": "COMPLETED"}
        logprobs = [entry[0] for entry in meta["output_token_logprobs"]]
        tokens = [entry[1] for entry in meta["output_token_logprobs"]]
        return Sample(tokens, status[meta["finish_reason"]["type"]], logprobs)

    async def run(
        self,
        groups: Sequence[dict[str, Any]],
        wanted: int,
        before_abort: Callable[[], Awaitable[None]],
    ) -> tuple[list[list[Sample]], list[list[Sample]]]:
        """The first `wanted` groups to finish, and the partial ones: `groups` has a payload for each."""
        pending = {asyncio.create_task(self._generate_group(payload)) for payload in groups}
        finished: list[list[Sample]] = []
        while len(finished) < wanted:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            finished += [task.result() for task in done]
        await before_abort()
        urls = await self.list_urls()
        await asyncio.gather(*map(self._abort_until_idle, urls))
        return finished, [await task for task in pending]

    async def list_urls(self) -> list[str]:
        """The URLs of the workers, as slime reads them."""
        async with self.client.get(f"{self.router}{self.lists}") as response:
            assert response.status == 200, await response.text()
            listed = await response.json()
        return [worker["url"] for worker in listed["workers"]] if self.lists == "/workers" else listed["urls"]

    async def _generate_group(self, payload: dict[str, Any]) -> list[Sample]:
        return await asyncio.gather(*(self.generate(payload) for _ in range(GROUP_SIZE)))

    async def _abort_until_idle(self, url: str) -> None:
        while True:
            async with self.client.post(f"{url}/abort_request", json={"abort_all": True}) as response:
                assert response.status == 200, await response.text()
            async with self.client.get(f"{url}/v1/loads?include=core,disagg,queues") as response:
                assert response.status == 200, await response.text()
                loads = (await response.json())["loads"]
            if not sum(load["num_running_reqs"] + load["num_waiting_reqs"] for load in loads):
                return
