"""`GET /prefixes` of a gateway that answers."""

from __future__ import annotations

import json

import pytest

from radixway.api.prefixes.routes import PrefixTree
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

SHARED = "You are a helpful assistant of a company that sells umbrellas in all sizes and colours. " * 30
SECRET = "the-secret-of-ann"


async def answer(exchange) -> None:
    if exchange.path.startswith("/cached_prefixes"):
        told = {"parent": None, "begin": 0, "tokens": 64, "hits": 7, "in_use": True, "hidden": 1}
        below = told | {"parent": 0, "begin": 64, "hits": 2, "in_use": False, "hidden": 0}
        body = {"prefixes": [told | {"hidden_tokens": 16}, below | {"hidden_tokens": 0}]}
        await exchange.reply(200, json.dumps(body).encode())
        return
    usage = {"prompt_tokens": 700, "completion_tokens": 3}
    await exchange.reply(200, json.dumps({"choices": [], "usage": usage}).encode())


async def odd(exchange) -> None:
    """Says that a prefix stands above itself."""
    if exchange.path.startswith("/cached_prefixes"):
        told = {"parent": 0, "begin": 0, "tokens": 64, "hits": 7, "in_use": True, "hidden": 1}
        await exchange.reply(200, json.dumps({"prefixes": [told | {"hidden_tokens": 0}]}).encode())
        return
    await answer(exchange)


@pytest.fixture
async def gateway():
    async with (
        scripted_worker(behaviour=answer) as one,
        scripted_worker(behaviour=odd) as two,
        running_gateway(one.url, two.url) as gateway,
    ):
        yield gateway


async def test_what_requests_share_is_told_without_its_text(gateway):
    for number in range(6):
        words = f"{SHARED}{SECRET} question {number} " + str(number) * 400
        status, _, _ = await gateway.chat(messages=[{"role": "user", "content": words}])
        assert status == 200
    status, told = await gateway.get("/prefixes")
    assert status == 200 and SECRET not in json.dumps(told) and "umbrella" not in json.dumps(told)
    tree = PrefixTree.model_validate(told)
    model, shared, *rest = tree.prefixes
    assert (model.kind, model.name, model.heat, tree.requests) == ("model", "m", 6, 6)
    assert (shared.kind, shared.parent, shared.heat) == ("prefix", 0, 6)
    assert shared.tokens > 500 and shared.last_used > 0
    assert [(each.name, each.requests) for each in shared.tenants] == [("default", 6)]
    assert sum(each.requests for each in shared.workers) == 6
    assert {each.tier for each in shared.held_by} == {"assumed"}
    assert len(rest) == 6 and all(each.parent == 1 and each.heat == 1 for each in rest)
    few = PrefixTree.model_validate((await gateway.get("/prefixes?most=2"))[1])
    assert len(few.prefixes) == 2 and few.prefixes[1].hidden == 6 and few.prefixes[1].hidden_tokens > 0


async def test_engines_tell_what_they_cache(gateway):
    tree = PrefixTree.model_validate((await gateway.get("/prefixes?source=caches"))[1])
    worker, first, second = tree.prefixes
    assert (worker.kind, first.parent, second.parent) == ("worker", worker.id, first.id)
    assert (first.heat, first.in_use, first.hidden, second.begin) == (7, True, 1, 64)
    assert len(tree.silent) == 1 and tree.silent[0] != worker.name


async def test_there_may_be_nothing_to_tell():
    async with running_gateway() as gateway:
        for source in ("requests", "caches", "trajectories"):
            status, told = await gateway.get(f"/prefixes?source={source}")
            assert (status, told["prefixes"]) == (200, [])


async def test_mistakes_are_named(gateway):
    for query, param in (
        ("source=attic", "source"),
        ("most=0", "most"),
        ("most=1001", "most"),
        ("levels=33", "levels"),
        ("latest=10001", "latest"),
        ("latest=x", "latest"),
        ("colour=red", "colour"),
    ):
        status, told = await gateway.get("/prefixes?" + query)
        assert (query, status, told["error"]["param"]) == (query, 400, param)


async def test_only_administrators_look():
    async with running_gateway(gateway={"admin_key": "root"}) as gateway:
        assert (await gateway.get("/prefixes"))[0] == 401
