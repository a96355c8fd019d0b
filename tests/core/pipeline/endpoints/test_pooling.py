"""Embeddings, rerank and score: passed to workers that serve them, on the same way as all other requests."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.guarded import ATTACK, EMAIL, guarded, steps
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

VECTORS = {
    "object": "list",
    "model": "m",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -0.5]}],
    "usage": {"prompt_tokens": 7, "total_tokens": 7},
}
RANKED = {
    "id": "rerank-1",
    "model": "m",
    "results": [{"index": 1, "document": {"text": "b"}, "relevance_score": 0.9}],
    "usage": {"total_tokens": 7},
}
SCORED = {
    "object": "list",
    "data": [{"index": 0, "object": "score", "score": 1}],
    "usage": {"prompt_tokens": 7},
}

PATHS = {
    "/v1/embeddings": ("openai.embeddings", VECTORS, {"input": "{}"}),
    "/v1/rerank": ("rerank", RANKED, {"query": "cats", "documents": ["a", "{}"]}),
    "/rerank": ("rerank", RANKED, {"query": "{}", "documents": [{"text": "a"}, "b"]}),
    "/v2/rerank": ("rerank", RANKED, {"query": "cats", "documents": [{"text": "{}"}], "top_n": 1}),
    "/v1/score": ("score", SCORED, {"text_1": "cats", "text_2": ["a", "{}"]}),
    "/score": ("score", SCORED, {"queries": ["{}"], "documents": "b"}),
}
EMBEDDED = [
    {"input": ["a", "b"]},
    {"input": [1, 2, 3], "encoding_format": "base64", "dimensions": 2},
    {"input": [[1, 2], [3]]},
    {"input": [{"text": "a"}, {"image": "https://example.org/a.png"}], "task": "retrieval.query"},
    {"messages": [{"role": "user", "content": "a"}], "truncate_prompt_tokens": 8},
]


def body_of(path: str, text: str) -> dict[str, Any]:
    """A body for `path` in which `text` stands somewhere."""
    return json.loads(json.dumps({"model": "m"} | PATHS[path][2]).replace("{}", text))


async def answer(exchange: Exchange) -> None:
    replies = {path: reply for path, (_, reply, _) in PATHS.items()}
    await exchange.reply(200, json.dumps(replies[exchange.path]).encode())


@pytest.mark.parametrize("path", PATHS)
async def test_it_is_passed_through_metered_limited_and_journalled(path: str) -> None:
    name, reply, _ = PATHS[path]
    tenants = {"a": {"keys": [{"key": "key-a"}], "rates": {"requests_per_minute": 1}}}
    key = {"authorization": "Bearer key-a"}
    async with scripted_worker(answer) as worker, running_gateway(worker.url, tenants=tenants) as gateway:
        sent = body_of(path, "hello") | {"unknown": 1e-5}
        status, told, headers = await gateway.post(path, sent, headers=key)
        assert (status, told) == (200, reply) and headers["x-radixway-worker"] in worker.url
        (got,) = worker.requests
        assert (got.path, got.json()) == (path, sent)
        _, explained = await gateway.get(f"/explain/{headers['x-request-id']}", headers=key)
        journal = {step["step"]: step for step in explained["steps"]}
        assert journal["receive"]["surface"] == name and "select" in journal
        assert not {"semantic", "semantic_cache", "trajectory"} & journal.keys()
        tokens = journal["tokens"]
        assert (tokens["prompt_tokens"], tokens["completion_tokens"], "estimated" in tokens) == (7, 0, False)
        assert journal["usage"]["prompt_tokens"] == 7
        metrics = gateway.gateway.metrics.render_text().decode()
        assert f'radixway_requests_total{{model="m",status="200",surface="{name}"}} 1.0' in metrics
        status, told, _ = await gateway.post(path, sent, headers=key)
        assert (status, told["error"]["code"]) == (429, "requests_per_minute")


@pytest.mark.parametrize(
    "pair", [("text_1", "text_2"), ("data_1", "data_2"), ("queries", "items"), ("query", "items")]
)
async def test_scores_are_asked_for_under_any_names(pair: tuple[str, str]) -> None:
    async with scripted_worker(answer) as worker, running_gateway(worker.url) as gateway:
        body = {pair[0]: "cats", pair[1]: ["a", {"content": [{"type": "text", "text": "b"}]}]}
        status, told, _ = await gateway.post("/v1/score", body)
        assert (status, told, worker.requests[0].json()) == (200, SCORED, body)


@pytest.mark.parametrize("body", EMBEDDED)
async def test_every_shape_of_input_is_passed_through(body: dict[str, Any]) -> None:
    async with scripted_worker(answer) as worker, running_gateway(worker.url) as gateway:
        status, told, _ = await gateway.post("/v1/embeddings", body)
        assert (status, told, worker.requests[0].json()) == (200, VECTORS, body)


@pytest.mark.parametrize("path", PATHS)
async def test_what_it_says_is_guarded(monkeypatch, path: str) -> None:
    blocks = {"jailbreak": {"action": "block"}, "pii": {"action": "block"}}
    async with scripted_worker(answer) as worker, guarded(monkeypatch, worker.url, guard=blocks) as gateway:
        for text, code in ((ATTACK, "jailbreak_block"), (f"To {EMAIL}", "pii_policy_denied")):
            status, told, headers = await gateway.post(path, body_of(path, text))
            assert (status, told["error"]["code"]) == (403, code) and "block" in headers["x-radixway-guard"]
        assert worker.requests == []
        status, _, _ = await gateway.post(path, body_of(path, "hello"))
        assert status == 200


@pytest.mark.parametrize("path", PATHS)
async def test_personal_data_in_it_is_masked(monkeypatch, path: str) -> None:
    masks = {"pii": {"action": "mask"}}
    async with scripted_worker(answer) as worker, guarded(monkeypatch, worker.url, guard=masks) as gateway:
        status, _, headers = await gateway.post(path, body_of(path, f"To {EMAIL}"))
        assert (status, headers["x-radixway-guard"]) == (200, "mask pii")
        (got,) = worker.requests
        assert EMAIL not in got.body.decode() and "To " in got.body.decode()


@pytest.mark.parametrize("ids", [[72, 105], [[72], [105, 1]]])
async def test_token_ids_that_nobody_can_read_are_told_of(monkeypatch, ids: list[Any]) -> None:
    masks = {"pii": {"action": "mask"}}
    async with scripted_worker(answer) as worker, guarded(monkeypatch, worker.url, guard=masks) as gateway:
        _, _, headers = await gateway.post("/v1/embeddings", {"model": "m", "input": ids})
        journal = await steps(gateway, headers)
        lists = len(ids) if isinstance(ids[0], list) else 1
        assert (journal["guard_unread"]["parts"], journal["guard_unread"]["of_token_ids"]) == (lists, lists)


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/embeddings", {}, "input"),
        ("/v1/embeddings", {"input": 5}, "input"),
        ("/v1/embeddings", {"input": []}, "input"),
        ("/v1/embeddings", {"input": [True]}, "input"),
        ("/v1/embeddings", {"input": "a", "model": 1}, "model"),
        ("/v1/embeddings", {"input": "a", "encoding_format": "bytes"}, "encoding_format"),
        ("/v1/embeddings", {"input": "a", "dimensions": 0}, "dimensions"),
        ("/v1/embeddings", {"messages": "a"}, "messages"),
        ("/v1/rerank", {"documents": ["a"]}, "query"),
        ("/rerank", {"query": "a"}, "documents"),
        ("/v2/rerank", {"query": "a", "documents": [1]}, "documents"),
        ("/v1/rerank", {"query": "a", "documents": []}, "documents"),
        ("/v1/rerank", {"query": "a", "documents": ["b"], "top_n": -1}, "top_n"),
        ("/v1/score", {"text_1": "a"}, "text_2"),
        ("/score", {"queries": "a"}, "documents"),
        ("/v1/score", {"query": "a", "documents": ["b"]}, "items"),
        ("/v1/score", {}, "text_1"),
        ("/v1/score", {"text_1": 1, "text_2": "b"}, "text_1"),
    ],
)
async def test_bad_input_names_the_field(path: str, body: dict[str, Any], param: str) -> None:
    async with scripted_worker(answer) as worker, running_gateway(worker.url) as gateway:
        status, told, _ = await gateway.post(path, body)
        assert status == 400 and told["error"]["type"] == "invalid_request_error"
        assert told["error"]["param"].startswith(param) and worker.requests == []


@pytest.mark.parametrize("path", PATHS)
async def test_a_worker_without_it_says_so_itself(path: str) -> None:
    said = {"error": {"message": "Not Found", "type": "NotFoundError", "param": None, "code": 404}}

    async def lacks(exchange: Exchange) -> None:
        await exchange.reply(404, json.dumps(said).encode())

    async with scripted_worker(lacks) as worker, running_gateway(worker.url) as gateway:
        status, told, _ = await gateway.post(path, body_of(path, "hello"))
        assert (status, told, len(worker.requests)) == (404, said, 1)


async def test_a_text_that_was_asked_before_goes_to_the_same_worker() -> None:
    async with scripted_worker(answer) as one, scripted_worker(answer) as other:
        async with running_gateway(one.url, other.url) as gateway:
            texts = ["x" * 20_000, "y" * 20_000]
            first = [await worker_of(gateway, text) for text in texts]
            again = [await worker_of(gateway, text) for text in texts]
            assert first == again and {*first} == {*map(name_of, (one, other))}


def name_of(worker: ScriptedWorker) -> str:
    return worker.url.removeprefix("http://")


async def worker_of(gateway: RunningGateway, text: str) -> str:
    _, _, headers = await gateway.post("/v1/embeddings", {"model": "m", "input": text})
    return str(headers["x-radixway-worker"])
