"""Calls that clients make to one engine go to a worker that can answer them."""

from __future__ import annotations

import pytest

from radixway._version import __version__
from radixway.routing import WorkerState
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

FORMS = [
    ("/tokenize", {"prompt": "hello", "add_special_tokens": False, "return_token_strs": True}),
    ("/tokenize", {"messages": [{"role": "user", "content": "hello"}], "add_generation_prompt": True}),
    ("/tokenize", {"prompt": ["hello", "you"]}),
    ("/v1/tokenize", {"prompt": "hello"}),
    ("/detokenize", {"tokens": [1, 2]}),
    ("/detokenize", {"tokens": [[1, 2], [3]], "skip_special_tokens": False}),
    ("/v1/detokenize", {"tokens": [1, 2]}),
]


@pytest.mark.parametrize(("path", "body"), FORMS)
async def test_each_form_reaches_a_worker_of_its_model(path: str, body: dict) -> None:
    async with scripted_worker(models=["a"]) as first, scripted_worker(models=["b"]) as second:
        async with running_gateway(first.url, second.url) as gateway:
            for model, worker in (("b", second), ("a", first), ("default", first), ("claude-4", first)):
                assert (await gateway.post(path, {"model": model} | body))[0] == 200
                named = {"default": "a", "claude-4": "a"}.get(model, model)
                assert worker.requests[-1].json() == {"model": named} | body
            assert (len(first.requests), len(second.requests)) == (3, 1)
            assert (await gateway.post(path, body))[0] == 200
            status, told, _ = await gateway.post(path, {"model": "c"} | body)
            assert (status, told["error"]["param"]) == (404, "model")


async def test_a_worker_that_tokenizes_is_asked_before_one_that_does_not() -> None:
    async with scripted_worker() as without, scripted_worker(tokenizes=True) as having:
        async with running_gateway(without.url, having.url) as gateway:
            assert (await gateway.post("/tokenize", {"model": "m", "prompt": "a"}))[0] == 200
            assert (len(without.requests), len(having.requests)) == (0, 1)


async def test_a_tenant_asks_its_own_workers_alone() -> None:
    tenants = {"acme": {"keys": [{"key": "acme-key-0123456789"}], "pools": ["mine"], "models": ["a"]}}
    bearer = {"headers": {"authorization": "Bearer acme-key-0123456789"}}
    async with scripted_worker(models=["a", "b"]) as other, scripted_worker(models=["a", "b"]) as own:
        workers = [{"url": other.url}, {"url": own.url, "pools": ["mine"]}]
        async with running_gateway(workers=workers, tenants=tenants) as gateway:
            for url in (other.url, own.url):
                await gateway.until(url, WorkerState.READY)
            for _ in range(3):
                assert (await gateway.post("/tokenize", {"model": "a", "prompt": "x"}, **bearer))[0] == 200
                assert (await gateway.post("/tokenize", {"prompt": "x"}, **bearer))[0] == 200
            assert (len(other.requests), len(own.requests)) == (0, 6)
            assert (await gateway.post("/tokenize", {"model": "b", "prompt": "x"}, **bearer))[0] == 404


async def test_the_version_is_the_gateways() -> None:
    async with running_gateway() as gateway:
        assert (await gateway.get("/version"))[1] == {"version": __version__}
