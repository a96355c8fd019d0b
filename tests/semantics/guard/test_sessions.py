"""Sessions of agents before the guard: what they say in their protocols, and the tokens that workers get."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import radixway.bundled
from radixway.core.tokenizer import Tokenizer
from support.guarded import EMAIL, guarded
from support.scripted_worker import scripted_worker

GUIDE = Path(radixway.bundled.__file__).parent / "guide"


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.load(GUIDE)


def model(tokenizer, prompts):
    """Answers `ok`, and keeps the prompts that it was given, as text."""

    async def answer(exchange):
        body = exchange.json()
        prompts.append(tokenizer.decode(body["input_ids"]))
        ids = tokenizer.encode("ok", add_special_tokens=False)
        meta = {
            "id": body["rid"],
            "finish_reason": {"type": "length"},
            "prompt_tokens": len(body["input_ids"]),
            "completion_tokens": len(ids),
            "output_token_logprobs": [[-0.5, token, None] for token in ids],
        }
        told = {"text": "ok", "output_ids": ids, "meta_info": meta}
        await exchange.reply(200, json.dumps(told).encode())

    return answer


async def test_a_session_is_told_what_its_model_may_be_told(monkeypatch, tokenizer):
    prompts = []
    trajectories = {"tokenizer": str(GUIDE)}
    guard = {"pii": {"action": "redact"}}
    async with scripted_worker(model(tokenizer, prompts)) as worker:
        sections = {"guard": guard, "trajectories": trajectories}
        async with guarded(monkeypatch, worker.url, **sections) as gateway:
            said = [{"role": "user", "content": f"Mail {EMAIL} and {EMAIL}!"}]
            body = {"model": "m", "max_tokens": 4, "messages": said, "system": "Be kind."}
            status, told, headers = await gateway.post("/sessions/s1/v1/messages", body)
            assert (status, headers["x-radixway-guard"]) == (200, "redact pii"), told
            assert EMAIL not in prompts[0] and prompts[0].count("[EMAIL_ADDRESS_1]") == 2


async def test_a_session_that_names_its_model_is_held_to_that_models_policy(monkeypatch, tokenizer):
    prompts = []
    trajectories = {"tokenizer": str(GUIDE)}
    policies = {"public": {"allow_by_default": False}, "private": {"allow_by_default": True}}
    semantic = {"model_config": {name: {"pii_policy": said} for name, said in policies.items()}}
    async with scripted_worker(model(tokenizer, prompts), models=["public", "private"]) as worker:
        sections = {"semantic": semantic, "trajectories": trajectories}
        async with guarded(monkeypatch, worker.url, **sections) as gateway:
            _, made, _ = await gateway.post("/sessions", {"model": "public"})
            path = f"/sessions/{made['session_id']}/v1/chat/completions"
            body = {"model": "private", "messages": [{"role": "user", "content": f"Mail {EMAIL}!"}]}
            _, told, headers = await gateway.post(path, body)
            assert headers["x-vsr-pii-violation"] == "true" and told["model"] == "public"
            assert prompts == []
            body["messages"][0]["content"] = "Hello"
            assert (await gateway.post(path, body))[0] == 200


async def test_what_was_said_to_a_model_before_is_not_shown_to_another_that_may_not_see_it(
    monkeypatch, tokenizer
):
    prompts = []
    policies = {"public": {"allow_by_default": False}, "private": {"allow_by_default": True}}
    semantic = {"model_config": {name: {"pii_policy": said} for name, said in policies.items()}}
    async with scripted_worker(model(tokenizer, prompts), models=["public", "private"]) as worker:
        sections = {"semantic": semantic, "trajectories": {"tokenizer": str(GUIDE)}}
        async with guarded(monkeypatch, worker.url, **sections) as gateway:
            path = "/sessions/s1/v1/responses"
            _, first, _ = await gateway.post(path, {"model": "private", "input": f"Mail {EMAIL} now"})
            body = {"input": "Go on.", "previous_response_id": first["id"]}
            _, _, headers = await gateway.post(path, body | {"model": "public"})
            assert headers["x-vsr-pii-violation"] == "true" and len(prompts) == 1
            status, _, _ = await gateway.post(path, body | {"model": "private"})
            assert status == 200 and EMAIL in prompts[1]


async def test_nobody_reads_for_a_tenant_that_may_ask_nothing_more(monkeypatch, tokenizer):
    key = "k1-0123456789abcdef"
    tenants = {"acme": {"keys": [{"key": key}], "rates": {"requests_per_minute": 1}}}
    sections = {"guard": {"enabled": True}, "trajectories": {"tokenizer": str(GUIDE)}, "tenants": tenants}
    async with scripted_worker(model(tokenizer, [])) as worker:
        async with guarded(monkeypatch, worker.url, **sections) as gateway:
            headers = {"authorization": f"Bearer {key}"}
            statuses = []
            for text in ("first", "second"):
                body = {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": text}]}
                path = "/sessions/s1/v1/messages"
                statuses.append((await gateway.post(path, body, headers=headers))[0])
            assert statuses == [200, 429]
            assert "first" in gateway.finder.asked and "second" not in gateway.finder.asked
