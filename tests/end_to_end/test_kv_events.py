"""A real engine tells a real gateway what it caches: what the router expects is what the engine finds."""

import asyncio

import pytest

from radixway.core.config import WorkerSettings
from radixway.routing import KvEventsState
from support.engine_process import engine_process
from support.running_gateway import running_gateway


async def until_heard(running, engine_url):
    """Wait until the gateway has applied every batch that the engine has published."""
    worker = running.gateway.registry.get_worker(engine_url)
    changed = asyncio.Event()
    running.gateway.kv_events.on_change.append(lambda _: changed.set())
    async with asyncio.timeout(20):
        while True:
            async with running.client.get(f"{engine_url}/server_info") as response:
                published = (await response.json())["kv_events"]["published_batches"]
            if worker.kv_events.state is KvEventsState.FOLLOWING and (
                not published or worker.kv_events.last_batch == published - 1
            ):
                return worker
            await changed.wait()
            changed.clear()


def another_that_may_come(running):
    """A worker that is down: without another one there is nothing to choose, and no prompt is read."""
    running.gateway.registry.add_worker(WorkerSettings(url="http://127.0.0.1:1"))


@pytest.mark.parametrize("form", ["map", pytest.param("array", marks=pytest.mark.slow)])
async def test_what_the_router_expects_is_what_the_engine_finds(tmp_path, form):
    events = (
        "--kv-events-endpoint",
        f"ipc://{tmp_path}/e",
        "--kv-events-replay-endpoint",
        f"ipc://{tmp_path}/r",
    )
    with engine_process(*events, "--kv-events-format", form) as (url, _):
        async with running_gateway(url) as running:
            another_that_may_come(running)

            async def generate(ids, **more):
                body = {"input_ids": ids, "sampling_params": {"max_new_tokens": 2, "temperature": 0}, **more}
                status, answer, headers = await running.post("/generate", body)
                assert status == 200, answer
                await until_heard(running, url)
                _, journal = await running.get(f"/explain/{headers['x-request-id']}")
                (select,) = [step for step in journal["steps"] if step["step"] == "select"]
                return select["expected_cached_tokens"], answer["meta_info"]["cached_tokens"]

            await until_heard(running, url)
            ids = list(range(300, 400))
            expectations = [
                await generate(ids),
                await generate(ids),
                await generate(ids[:96]),  # whole blocks: the last token is computed anew nevertheless
                await generate(ids[:50]),
                await generate(ids + list(range(500, 540))),
                await generate(ids + list(range(500, 540))),
                await generate(ids, cache_salt="tenant"),
                await generate(ids, cache_salt="tenant"),
                await generate(ids, cache_salt="tenant", extra_key="more"),
                await generate(ids, cache_salt="tenant", extra_key="more"),
            ]
            expected, found = zip(*expectations, strict=True)
            assert expected == found
            assert found[1] == 96 and found[7] == 96 and not found[6] and not found[8]

            _, listing = await running.get("/list_workers")
            told = listing["workers"][0]
            assert told["kv_events"]["state"] == "following" and told["kv_events"]["blocks"] > 0
            _, health = await running.get("/health")
            assert "following" in health["kv_events"].values()
            async with running.client.get(f"{running.url}/metrics/prometheus") as response:
                metrics = await response.text()
            assert 'radixway_kv_event_workers{state="following"} 1.0' in metrics
            assert 'radixway_kv_events_total{kind="stored"}' in metrics

            async with running.client.post(f"{url}/flush_cache") as response:
                assert response.status == 200
            worker = await until_heard(running, url)
            assert not worker.kv_events.blocks and not len(running.gateway.kv_events._index)


async def test_chats_are_known_by_the_tokens_that_the_engine_makes_of_them(tmp_path):
    events = [
        "--kv-events-endpoint",
        f"ipc://{tmp_path}/e",
        "--kv-events-replay-endpoint",
        f"ipc://{tmp_path}/r",
    ]
    with engine_process(*events) as (url, _):
        async with running_gateway(url) as running:
            another_that_may_come(running)
            messages = [{"role": "system", "content": "You know one book. 你好 😀 " * 8}]

            async def chat(text, **more):
                messages.append({"role": "user", "content": text})
                body = {"messages": messages, "max_tokens": 24, "temperature": 0, **more}
                status, answer, headers = await running.post("/v1/chat/completions", body)
                assert status == 200, answer
                await until_heard(running, url)
                messages.append(answer["choices"][0]["message"])
                _, journal = await running.get(f"/explain/{headers['x-request-id']}")
                (select,) = [step for step in journal["steps"] if step["step"] == "select"]
                return select, answer["usage"]

            await until_heard(running, url)
            first, _ = await chat("What is Radixway?")
            assert first["prompt"]["source"] in ("worker", "text")  # the tokenizer is wanted now, and loads
            running.gateway.tokenizers.wait_loaded()
            for salt in ({}, {}, {"cache_salt": "tenant"}, {"cache_salt": "tenant"}):
                select, usage = await chat("And what more?", **salt)
                assert select["prompt"] == {"tokens": usage["prompt_tokens"], "source": "tokenizer"}
                assert select["expected_cached_tokens"] == usage["prompt_tokens_details"]["cached_tokens"]
            assert usage["prompt_tokens_details"]["cached_tokens"] > 100
