"""Where a gateway has its prompts' tokens from, over real sockets."""

import json

import pytest

from radixway.core.tokenizer import Tokenizer
from radixway.routing import WorkerState
from support.running_gateway import running_gateway
from support.scripted_engine import GUIDE
from support.scripted_worker import answer_ok, scripted_worker

TOKENS = list(range(40))


def tokenizes(status=200, answer=None):
    """The behaviour of a worker that answers `/tokenize` so."""

    async def behave(exchange):
        if exchange.path != "/tokenize":
            await answer_ok(exchange)
        elif status is None:
            await exchange.until_peer_leaves()
        else:
            reply = {"tokens": TOKENS, "count": len(TOKENS)} if answer is None else answer
            await exchange.reply(status, json.dumps(reply).encode())

    return behave


ALWAYS = {"ask_workers": "always"}
"""Though nobody publishes KV events."""


async def selected(gateway, **fields):
    """The choice for a chat, as the journal tells it."""
    status, _, headers = await gateway.chat(**fields)
    assert status == 200
    _, journal = await gateway.get(f"/explain/{headers['x-request-id']}")
    return next(step for step in journal["steps"] if step["step"] == "select")


async def test_a_worker_with_tokenize_is_asked():
    async with scripted_worker(tokenizes(), tokenizes=True) as a, scripted_worker() as b:
        async with running_gateway(a.url, b.url, routing={"tokenize": ALWAYS}) as gateway:
            select = await selected(gateway, tools=[])
            assert select["prompt"] == {"tokens": 40, "source": "worker"}
            question = next(e for e in a.requests if e.path == "/tokenize")
            assert question.json() == {
                "model": "m",
                "messages": [{"role": "user", "content": "hello"}],
                "tools": [],
            }
            assert not any(e.path == "/tokenize" for e in b.requests)


@pytest.mark.parametrize(
    ("status", "answer", "reason"),
    [
        (None, None, "worker_silent"),
        (400, None, "worker_refused"),
        (200, {"tokens": [], "count": 0}, "worker_refused"),
        (200, {"tokens": [1, 2], "count": 3}, "worker_refused"),
        (200, {"tokens": [-1], "count": 1}, "worker_refused"),
        (200, {"content": "llama.cpp's"}, "worker_refused"),
        (200, ["nonsense"], "worker_refused"),
    ],
)
async def test_a_worker_that_gives_no_tokens_costs_no_answer(status, answer, reason):
    routing = {"tokenize": {"ask_timeout_s": 0.1, **ALWAYS}}
    behaviour = tokenizes(status, answer)
    async with scripted_worker(behaviour, tokenizes=True) as a, scripted_worker() as b:
        async with running_gateway(a.url, b.url, routing=routing) as gateway:
            select = await selected(gateway)
            assert select["prompt"]["source"] == "text" and select["prompt"]["fallback"] == reason
            async with gateway.client.get(f"{gateway.url}/metrics/prometheus") as response:
                metrics = await response.text()
            assert f'radixway_prompts_as_text_total{{reason="{reason}"}} 1.0' in metrics


async def test_a_worker_alone_is_not_asked_and_its_prompts_are_not_read():
    async with scripted_worker(tokenizes(), tokenizes=True) as a, scripted_worker(models=["other"]) as b:
        async with running_gateway(a.url, b.url, routing={"tokenize": ALWAYS}) as gateway:
            assert (await selected(gateway))["prompt"]["source"] == "size"
            assert [e.path for e in a.requests] == ["/v1/chat/completions"]
            b.models.append("m")  # which the gateway learns once it is asked again
            gateway.gateway.registry.set_state(
                gateway.gateway.registry.get_worker(b.url), WorkerState.JOINING
            )
            await gateway.post("/add_worker", {"url": b.url})
            await gateway.until(b.url, WorkerState.READY)
            assert (await selected(gateway))["prompt"]["source"] == "worker"


async def test_a_tokenizer_is_found_by_configuration_or_where_the_worker_says():
    text = Tokenizer.load(GUIDE).render([{"role": "user", "content": "hello"}], add_generation_prompt=True)
    count = len(Tokenizer.load(GUIDE).encode(text, add_special_tokens=False))
    async with scripted_worker(root=str(GUIDE)) as a, scripted_worker() as b:
        async with running_gateway(a.url, b.url, routing={"tokenizers": {"m": str(GUIDE)}}) as gateway:
            gateway.gateway.tokenizers.wait_loaded()
            assert (await selected(gateway))["prompt"] == {"tokens": count, "source": "tokenizer"}
        async with running_gateway(a.url, b.url) as gateway:
            await selected(gateway)
            gateway.gateway.tokenizers.wait_loaded()
            assert (await selected(gateway))["prompt"] == {"tokens": count, "source": "tokenizer"}


async def test_adapters_are_told_from_models():
    adapters = {"tuned": "m"}
    async with scripted_worker(adapters=adapters) as a, scripted_worker(adapters=adapters) as b:
        async with running_gateway(a.url, b.url) as gateway:
            assert gateway.gateway.registry.get_worker(a.url).info.adapters == adapters
            ids = {"model": "m", "input_ids": list(range(64)), "request_id": "r1"}
            await gateway.post("/select_and_reserve", ids)
            await gateway.post("/prefill_complete", {"request_id": "r1"})
            _, again, _ = await gateway.post("/select", {**ids, "request_id": "r2"})
            assert again["expected_cached_tokens"] == 48
            _, tuned, _ = await gateway.post("/select", {**ids, "model": "tuned"})
            assert tuned["expected_cached_tokens"] == 0
