"""Kept responses and chats by keys made at run time are held to the key, and charged to it."""

from __future__ import annotations

import json

import pytest

from api.keys.test_rest_routes import COST, USAGE, bearer, call, keys_gateway


async def streaming(exchange) -> None:
    """Stream an answer whose figures never change."""
    await exchange.begin_stream()
    text = {"choices": [{"index": 0, "delta": {"content": "ok"}, "finish_reason": "stop"}]}
    for event in (text, {"choices": [], "usage": USAGE}):
        await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
    await exchange.chunk(b"data: [DONE]\n\n")
    await exchange.end_stream()


async def respond(gateway, key: str, **fields):
    """The status, and the error's code, of a response that is kept unless `fields` say otherwise."""
    body = {"model": "m", "input": "hello", "max_output_tokens": 1} | fields
    status, answer, _ = await gateway.post("/v1/responses", body, **bearer(key))
    return status, (answer.get("error") or {}).get("code")


@pytest.mark.parametrize("store", [True, False])
async def test_a_response_is_charged_to_its_key_user_and_team(tmp_path, store):
    async with keys_gateway(tmp_path, streaming) as gateway:
        await call(gateway, "POST", "/teams", {"id": "red"}, status=201)
        await call(gateway, "POST", "/users", {"id": "ann"}, status=201)
        body = {"team": "red", "user": "ann", "max_budget": 1.5 * COST}
        made = await call(gateway, "POST", "/keys", body, status=201)
        found = [await respond(gateway, made["key"], store=store) for _ in range(3)]
        assert found == [(200, None)] * 2 + [(429, "budget_exceeded")]
        for path in (f"/keys/{made['id']}", "/users/ann", "/teams/red"):
            assert (await call(gateway, "GET", path))["spend"] == pytest.approx(2 * COST)
        row = (await call(gateway, "GET", "/spend?by=key,user,team"))["spend"][0]
        assert (row["key"], row["user"], row["team"], row["requests"]) == (made["id"], "ann", "red", 2)


@pytest.mark.parametrize("store", [True, False])
async def test_a_response_is_held_to_its_keys_models_and_endpoints(tmp_path, store):
    async with keys_gateway(tmp_path, streaming) as gateway:
        bodies = {"user": "ann", "models": ["other"]}, {"user": "ann"}
        made, wide = [await call(gateway, "POST", "/keys", body, status=201) for body in bodies]
        assert (await respond(gateway, wide["key"], store=store))[0] == 200
        assert (await respond(gateway, made["key"], store=store))[0] == 404
        await call(gateway, "PATCH", f"/keys/{made['id']}", {"endpoints": ["/v1/embeddings"]})
        assert await respond(gateway, made["key"], store=store) == (403, "endpoint_not_allowed")
        status, _, _ = await gateway.post("/v1/chats", {}, **bearer(made["key"]))
        assert status == 403


async def test_keys_without_a_user_have_responses_of_their_own(tmp_path):
    async with keys_gateway(tmp_path, streaming) as gateway:
        one, other = [await call(gateway, "POST", "/keys", {}, status=201) for _ in range(2)]
        body = {"model": "m", "input": "hello"}
        kept = (await gateway.post("/v1/responses", body, **bearer(one["key"])))[1]["id"]
        rotated = await call(gateway, "POST", f"/keys/{one['id']}/rotate")
        assert (await gateway.get(f"/v1/responses/{kept}", **bearer(rotated["key"])))[0] == 200
        assert (await gateway.get(f"/v1/responses/{kept}", **bearer(other["key"])))[0] == 404
