"""A gateway in front of a provider of hosted models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import openai

from radixway.routing import WorkerState
from support.hosted_providers import HostedProvider, hosted_provider
from support.running_gateway import RunningGateway, running_gateway

ASK = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


@asynccontextmanager
async def fronted(
    kind: str, *others: str, **sections: Any
) -> AsyncIterator[tuple[HostedProvider, RunningGateway]]:
    """A gateway in front of a provider, and of own workers at the URLs `others`."""
    more = sections.pop("worker", {})
    own = [{"url": url} for url in others]
    async with hosted_provider(kind) as provider:
        workers = [*own, provider.worker(**more)]
        async with running_gateway(workers=workers, **sections) as gateway:
            for worker in gateway.gateway.config.workers:
                await gateway.until(worker.url, WorkerState.READY)
            yield provider, gateway


def client(gateway: RunningGateway) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{gateway.url}/v1", api_key="none", max_retries=0)


async def explain(gateway: RunningGateway, headers: Any) -> dict[str, Any]:
    return (await gateway.get(f"/explain/{headers['x-request-id']}"))[1]


def step(journal: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in journal["steps"] if each["step"] == name)
