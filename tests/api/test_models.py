"""`/v1/models`: full cards, and aliases in every surface."""

from __future__ import annotations

import json

import anthropic
import pytest

from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker
from support.surface_worker import surface_worker

CARD = {
    "created": 1763750000,
    "owned_by": "vllm",
    "root": "/models/m",
    "parent": None,
    "max_model_len": 4096,
    "permission": [{"id": "modelperm-1", "allow_sampling": True}],
}
ALIASES = {"claude-*": "default", "best": "m"}


async def test_a_card_is_the_workers_own_with_the_context_that_each_worker_takes() -> None:
    async with (
        surface_worker(card=CARD) as large,
        surface_worker(card=CARD | {"max_model_len": 512}) as small,
    ):
        async with running_gateway(large.url, small.url) as gateway:
            _, listed = await gateway.get("/v1/models")
            assert listed == {
                "object": "list",
                "data": [{"id": "m", "object": "model", **CARD, "max_model_len": 512}],
            }
            assert (await gateway.get("/v1/models/m"))[1] == listed["data"][0]


async def test_a_model_of_which_nothing_is_told_has_a_card_all_the_same() -> None:
    async with surface_worker() as worker, running_gateway(worker.url) as gateway:
        _, card = await gateway.get("/v1/models/m")
    assert card == {
        "id": "m",
        "object": "model",
        "created": 0,
        "owned_by": "radixway",
        "root": "m",
        "parent": None,
        "max_model_len": None,
    }


async def test_an_adapter_names_its_parent() -> None:
    async with scripted_worker(adapters={"lora": "m"}) as worker, running_gateway(worker.url) as gateway:
        assert (await gateway.get("/v1/models/lora"))[1]["parent"] == "m"


async def test_aliases_are_listed_by_name_and_described_by_any_name_that_they_match() -> None:
    async with surface_worker(card=CARD) as worker:
        async with running_gateway(worker.url, routing={"model_aliases": ALIASES}) as gateway:
            _, listed = await gateway.get("/v1/models")
            assert [(card["id"], card["root"]) for card in listed["data"]] == [
                ("best", "m"),
                ("m", "/models/m"),
            ]
            for name in ("claude-sonnet-4-5", "default"):
                status, card = await gateway.get(f"/v1/models/{name}")
                assert (status, card["id"], card["root"]) == (200, name, "m")
                assert card["max_model_len"] == 4096
            assert (await gateway.get("/v1/models/claude"))[0] == 404


@pytest.mark.parametrize("name", ["default", "best", "claude-3-5-haiku-latest"])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}]}),
        ("/v1/completions", {"prompt": "hello"}),
        ("/generate", {"text": "hello"}),
        ("/v1/embeddings", {"input": "hello"}),
        ("/pooling", {"input": "hello"}),
        ("/v1/responses", {"input": "hello", "store": False}),
        ("/v1/responses", {"input": "hello"}),
    ],
)
async def test_an_alias_is_taken_in_every_surface(path: str, body: dict, name: str) -> None:
    async def answer(exchange) -> None:
        choice = {"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}
        await exchange.reply(200, json.dumps({"choices": [choice]}).encode())

    async with scripted_worker(answer) as worker:
        async with running_gateway(worker.url, routing={"model_aliases": ALIASES}) as gateway:
            status, told, _ = await gateway.post(path, {"model": name} | body)
            assert status == 200, told
            assert worker.requests[-1].json()["model"] == "m"


async def test_claude_stands_for_the_default_model_where_nothing_else_is_configured() -> None:
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        assert (await gateway.chat(model="claude-sonnet-4-5"))[0] == 200
        assert worker.requests[-1].json()["model"] == "m"
        assert (await gateway.chat(model="gpt-4"))[0] == 404


ANTHROPIC = {"anthropic-version": "2023-06-01"}


async def test_anthropics_clients_see_models_in_their_form() -> None:
    async with surface_worker(card=CARD) as worker, running_gateway(worker.url) as gateway:
        _, listed = await gateway.get("/v1/models", headers=ANTHROPIC)
        (model,) = listed["data"]
        assert (model["type"], model["id"], model["display_name"]) == ("model", "m", "m")
        assert (model["created_at"], model["max_input_tokens"]) == ("2025-11-21T18:33:20Z", 4096)
        assert (listed["first_id"], listed["last_id"], listed["has_more"]) == ("m", "m", False)
        assert (await gateway.get("/v1/models/m", headers=ANTHROPIC))[1] == model
        status, told = await gateway.get("/v1/models/nobody", headers=ANTHROPIC)
        assert (status, told["type"], told["error"]["type"]) == (404, "error", "not_found_error")


@pytest.mark.parametrize("created", [None, "today", -1, 1e30])
async def test_a_time_that_makes_no_sense_is_the_epoch(created: object) -> None:
    async with surface_worker(card=CARD | {"created": created}) as worker:
        async with running_gateway(worker.url) as gateway:
            status, model = await gateway.get("/v1/models/m", headers=ANTHROPIC)
            assert (status, model["created_at"]) == (200, "1970-01-01T00:00:00Z")


async def test_anthropics_client_reads_models_page_by_page() -> None:
    async with surface_worker(models=["a", "b", "c", "d", "e"]) as worker:
        async with running_gateway(worker.url) as gateway:
            client = anthropic.AsyncAnthropic(base_url=gateway.url, api_key="none", max_retries=0)
            assert [model.id async for model in client.models.list(limit=2)] == ["a", "b", "c", "d", "e"]
            page = await client.models.list(limit=2, before_id="d")
            assert ([model.id for model in page.data], page.has_more) == (["b", "c"], True)
            assert [model.id async for model in page] == ["b", "c", "a"]
            page = await client.models.list(after_id="e")
            assert (page.data, page.has_more, page.first_id, page.last_id) == ([], False, None, None)


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=1001", "limit"),
        ("limit=many", "limit"),
        ("after_id=nobody", "after_id"),
        ("before_id=nobody", "before_id"),
        ("before_id=m&after_id=m", "before_id"),
    ],
)
async def test_a_page_that_cannot_be_is_refused_by_name(query: str, field: str) -> None:
    async with surface_worker() as worker, running_gateway(worker.url) as gateway:
        status, told = await gateway.get(f"/v1/models?{query}", headers=ANTHROPIC)
        assert (status, told["error"]["type"]) == (400, "invalid_request_error")
        assert field in told["error"]["message"]
        assert (await gateway.get(f"/v1/models?{query}"))[0] == 200


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [("/v1/models", 401, "authentication_error"), ("/v1/messages/batches", 404, "not_found_error")],
)
async def test_errors_have_the_shape_of_the_clients_api(path: str, status: int, kind: str) -> None:
    tenants = {"acme": {"keys": [{"key": "acme-key"}]}}
    async with surface_worker() as worker, running_gateway(worker.url, tenants=tenants) as gateway:
        said, told = await gateway.get(path, headers=ANTHROPIC)
        assert (said, told["type"], told["error"]["type"]) == (status, "error", kind)
        said, told = await gateway.get(path)
        assert (said, set(told), "param" in told["error"]) == (status, {"error"}, True)
