"""Which model may see what: policies of models, categories, tenants; what is hidden from whom."""

from __future__ import annotations

import asyncio
import json

import pytest

from radixway.core.config import ConfigError
from support.guarded import ATTACK, EMAIL, PHONE, chat, guarded, steps
from support.scripted_worker import scripted_worker

PUBLIC, PRIVATE = {"allow_by_default": False}, {"allow_by_default": True}
ASK = f"Please email {EMAIL} about the equation x squared."


def classic(policies, scores=("public", "private"), **more):
    """A vLLM-Semantic-Router configuration: one category, its models from good to less good."""
    return {
        "keyword_rules": [{"name": "math", "keywords": ["equation"], "operator": "OR"}],
        "categories": [
            {
                "name": "math",
                "model_scores": [
                    {"model": name, "score": 1 - index / 10, "use_reasoning": False}
                    for index, name in enumerate(scores)
                ],
            }
        ],
        "model_config": {name: {"pii_policy": policy} for name, policy in policies.items()},
    } | more


def worker_of(*models):
    return scripted_worker(models=list(models))


async def test_of_the_category_the_next_model_answers_that_may_see_it(monkeypatch):
    section = classic({"public": PUBLIC, "private": PRIVATE}, default_model="public")
    async with worker_of("public", "private") as worker:
        async with guarded(monkeypatch, worker.url, semantic=section) as gateway:
            _, _, headers = await gateway.post("/v1/chat/completions", chat(ASK, model="auto"))
            assert headers["x-vsr-selected-model"] == "private"
            _, _, headers = await gateway.post("/v1/chat/completions", chat("An equation.", model="auto"))
            assert headers["x-vsr-selected-model"] == "public"


async def test_then_the_default_model_and_then_nobody(monkeypatch):
    allowing = {"pii_types_allowed": ["EMAIL_ADDRESS"]}
    section = classic({"public": PUBLIC, "last": allowing}, scores=("public",), default_model="last")
    async with worker_of("public", "last") as worker:
        async with guarded(monkeypatch, worker.url, semantic=section) as gateway:
            _, _, headers = await gateway.post("/v1/chat/completions", chat(ASK, model="auto"))
            assert headers["x-vsr-selected-model"] == "last"
            asked = chat(f"{ASK} Or call {PHONE}.", model="auto")
            _, told, headers = await gateway.post("/v1/chat/completions", asked)
            assert headers["x-vsr-pii-violation"] == "true" and told["model"] == "public"
            assert len(worker.requests) == 1


async def test_a_model_that_is_named_is_held_to_its_own_policy(monkeypatch):
    section = classic({"public": PUBLIC}, scores=("public",))
    async with worker_of("public", "free") as worker:
        async with guarded(monkeypatch, worker.url, semantic=section) as gateway:
            _, told, headers = await gateway.post("/v1/chat/completions", chat(ASK, model="public"))
            assert headers["x-vsr-pii-violation"] == "true" and told["model"] == "public"
            _, _, headers = await gateway.post("/v1/chat/completions", chat(ASK, model="free"))
            assert "x-vsr-pii-violation" not in headers and len(worker.requests) == 1


async def test_a_fallback_is_held_to_its_policy_too(monkeypatch):
    section = classic({"public": PUBLIC, "private": PRIVATE}, scores=("private",))
    routing = {"fallbacks": {"private": "public"}}
    async with worker_of("public") as worker:
        async with guarded(monkeypatch, worker.url, semantic=section, routing=routing) as gateway:
            status, _, _ = await gateway.post("/v1/chat/completions", chat(ASK, model="private"))
            assert status == 404 and worker.requests == []
            status, _, _ = await gateway.post("/v1/chat/completions", chat("An equation.", model="private"))
            assert status == 200


async def test_what_may_not_be_seen_is_routed_to_the_private_model(monkeypatch):
    guard = {"pii": {"action": "route", "route_to": "private"}}
    section = classic({}, scores=("public",), default_model="public")
    async with worker_of("public", "private") as worker:
        async with guarded(monkeypatch, worker.url, semantic=section, guard=guard) as gateway:
            for asked in ("auto", "public"):
                _, _, headers = await gateway.post("/v1/chat/completions", chat(ASK, model=asked))
                assert headers["x-radixway-guard"] == "route pii"
                assert headers["x-vsr-selected-model"] == "private"
                assert worker.requests[-1].json()["model"] == "private"


async def test_masked_texts_are_masked_everywhere_and_nothing_else_changes(monkeypatch):
    guard = {"pii": {"action": "mask", "mask": "type"}}
    body = chat(f"Write to {EMAIL}!") | {"odd": 1.5}
    body["messages"].insert(0, {"role": "system", "content": [{"type": "text", "text": PHONE}], "x": 1})
    async with scripted_worker() as worker, guarded(monkeypatch, worker.url, guard=guard) as gateway:
        _, _, headers = await gateway.post("/v1/chat/completions", body)
        assert headers["x-radixway-guard"] == "mask pii"
        sent = worker.requests[0].json()
        assert sent["messages"] == [
            {"role": "system", "content": [{"type": "text", "text": "<PHONE_NUMBER>"}], "x": 1},
            {"role": "user", "content": "Write to <EMAIL_ADDRESS>!"},
        ]
        assert sent["odd"] == 1.5


async def test_a_system_prompt_put_before_them_does_not_move_what_is_masked(monkeypatch):
    section = classic({"public": PUBLIC}, scores=("public",))
    section["categories"][0]["system_prompt"] = "You know algebra."
    guard = {"pii": {"action": "mask"}}
    async with worker_of("public") as worker:
        async with guarded(monkeypatch, worker.url, semantic=section, guard=guard) as gateway:
            await gateway.post("/v1/chat/completions", chat(ASK, model="auto"))
            system, user = worker.requests[0].json()["messages"]
            assert system["content"] == "You know algebra."
            assert user["content"] == ASK.replace(EMAIL, "*****")


async def test_token_ids_cannot_be_masked_and_are_blocked(monkeypatch):
    async def tokenizer_of(model):
        return model, Letters()

    class Letters:
        size = 128

        def decode(self, ids):
            return "".join(map(chr, ids))

    guard = {"pii": {"action": "mask"}}
    async with scripted_worker() as worker, guarded(monkeypatch, worker.url, guard=guard) as gateway:
        monkeypatch.setattr(
            type(gateway.gateway.tokenizer_of), "__call__", lambda self, model: tokenizer_of(model)
        )
        body = {"input_ids": [ord(letter) for letter in f"to {EMAIL}"]}
        _, _, headers = await gateway.post("/generate", body)
        assert headers["x-vsr-pii-violation"] == "true" and worker.requests == []


async def test_rules_may_ask_what_the_guard_found_and_blocks_of_theirs_stay_403(monkeypatch):
    section = {
        "policy_rules": [
            {"name": "no-mail", "condition": "pii.EMAIL_ADDRESS.matched", "action": "block", "priority": 200},
            {
                "name": "attacked",
                "condition": "jailbreak.instruction_override.score > 0.9",
                "action": "block",
                "priority": 199,
            },
        ],
        "default_model": "m",
    }
    async with scripted_worker() as worker, guarded(monkeypatch, worker.url, semantic=section) as gateway:
        for text in (EMAIL, ATTACK):
            status, told, _ = await gateway.post("/v1/chat/completions", chat(text))
            assert (status, told["error"]["code"]) == (403, "blocked_by_rule")
            path = "/sessions/s1/v1/responses"
            status, told, _ = await gateway.post(path, {"model": "m", "input": "hi", "instructions": text})
            assert (status, told["error"]["code"]) == (403, "blocked_by_rule")
        assert (await gateway.post("/v1/chat/completions", chat("Hello")))[0] == 200
        assert len(worker.requests) == 1


async def test_text_with_personal_data_never_reaches_the_cache(monkeypatch):
    async def answer(exchange):
        choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
        reply = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        await exchange.reply(200, json.dumps(reply).encode())

    async with scripted_worker(answer) as worker:
        cache, guard = {"enabled": True}, {"pii": {}, "jailbreak": {"action": "block"}}
        async with guarded(monkeypatch, worker.url, semantic_cache=cache, guard=guard) as gateway:
            room = gateway.gateway.cache
            for _ in range(2):
                body = chat(f"Who is {EMAIL}?", temperature=0)
                _, _, headers = await gateway.post("/v1/chat/completions", body)
                assert "x-vsr-cache-hit" not in headers
                told = (await steps(gateway, headers))["semantic_cache"]
                assert (told["outcome"], told["reason"]) == ("passed", "personal_data")
                await gateway.post("/v1/chat/completions", chat(ATTACK, temperature=0))
            gateway.finder.broken = True
            await gateway.post("/v1/chat/completions", chat("Who is it?", temperature=0))
            await room.middleware.wait_for_writes()
            assert room.describe()["entries_in_memory"] == 0


@pytest.mark.parametrize(
    ("pii", "hits"), [({}, 1), ({"cacheable": []}, 0), ({"actions": {"GPE": "mask"}}, 0)], ids=str
)
async def test_a_place_that_is_only_reported_does_not_keep_a_question_from_the_cache(monkeypatch, pii, hits):
    async def answer(exchange):
        choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
        reply = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
        await exchange.reply(200, json.dumps(reply).encode())

    async with scripted_worker(answer) as worker:
        sections = {"semantic_cache": {"enabled": True}, "guard": {"pii": pii}}
        async with guarded(monkeypatch, worker.url, **sections) as gateway:
            for _ in range(2):
                body = chat("How deep is Lake Baikal?", temperature=0)
                _, _, headers = await gateway.post("/v1/chat/completions", body)
                await gateway.gateway.cache.middleware.wait_for_writes()
            assert headers.get("x-vsr-cache-hit") == ("true" if hits else None)


async def test_tenants_have_policies_of_their_own(monkeypatch):
    tenants = {
        "acme": {"keys": [{"key": "k1-0123456789abcdef"}], "guard": "lax"},
        "other": {"keys": [{"key": "k2-0123456789abcdef"}]},
    }
    guard = {"pii": {"action": "block"}, "policies": {"lax": {"pii": {"action": "report"}}}}
    async with scripted_worker() as worker:
        async with guarded(monkeypatch, worker.url, guard=guard, tenants=tenants) as gateway:
            for key, noted in (("k1", "report pii"), ("k2", "block pii")):
                headers = {"authorization": f"Bearer {key}-0123456789abcdef"}
                _, _, told = await gateway.post("/v1/chat/completions", chat(EMAIL), headers=headers)
                assert told["x-radixway-guard"] == noted


async def test_policies_alone_guard_the_tenants_that_name_them_and_nobody_else(monkeypatch):
    tenants = {
        "acme": {"keys": [{"key": "k1-0123456789abcdef"}], "guard": "strict"},
        "other": {"keys": [{"key": "k2-0123456789abcdef"}]},
    }
    strict = {"pii": {"action": "block"}, "answers": {"pii": {"action": "mask"}}}
    guard = {"policies": {"strict": strict}}
    async with scripted_worker() as worker:
        async with guarded(monkeypatch, worker.url, guard=guard, tenants=tenants) as gateway:
            for key, noted in (("k1", "block pii"), ("k2", None)):
                headers = {"authorization": f"Bearer {key}-0123456789abcdef"}
                _, _, told = await gateway.post("/v1/chat/completions", chat(EMAIL), headers=headers)
                assert told.get("x-radixway-guard") == noted


async def test_a_tenants_policy_that_is_not_there_is_told_at_the_start(monkeypatch):
    tenants = {"acme": {"keys": [{"key": "k1-0123456789abcdef"}], "guard": "strict"}}
    with pytest.raises(ConfigError, match=r"tenants\.acme\.guard: guard\.policies has no 'strict'"):
        async with guarded(monkeypatch, tenants=tenants):
            pass


async def test_what_a_request_is_about_says_how_strict_the_guard_is(monkeypatch):
    section = classic({}, scores=("m",), default_model="m", prompt_guard={"enabled": True})
    section["categories"][0]["jailbreak_threshold"] = 0.95
    attack = f"{ATTACK} Solve the equation."
    async with scripted_worker() as worker:
        async with guarded(monkeypatch, worker.url, semantic=section) as gateway:
            _, _, headers = await gateway.post("/v1/chat/completions", chat(attack, model="auto"))
            assert "x-vsr-jailbreak-blocked" not in headers and headers["x-vsr-selected-category"] == "math"
            _, _, headers = await gateway.post("/v1/chat/completions", chat(attack))
            assert headers["x-vsr-jailbreak-blocked"] == "true", "nobody classifies what names its model"


async def test_plugins_of_the_decision_that_won_take_effect(monkeypatch):
    plugin = {"type": "pii", "configuration": {"enabled": True, "pii_types_allowed": ["PHONE_NUMBER"]}}
    decision = {
        "name": "letters",
        "rules": {"operator": "OR", "conditions": [{"type": "keyword", "name": "mail"}]},
        "modelRefs": [{"model": "m"}],
        "plugins": [plugin],
    }
    section = {
        "signals": {"keywords": [{"name": "mail", "keywords": ["letter"], "operator": "OR"}]},
        "decisions": [decision],
        "default_model": "m",
    }
    async with scripted_worker() as worker:
        async with guarded(monkeypatch, worker.url, semantic=section) as gateway:
            for text, blocked in (
                (f"A letter to {EMAIL}", True),
                (f"A letter to {PHONE}", False),
                (f"A note to {EMAIL}", False),
            ):
                _, _, headers = await gateway.post("/v1/chat/completions", chat(text, model="auto"))
                assert ("x-vsr-pii-violation" in headers) is blocked


async def test_a_policy_that_a_file_gains_is_in_force_without_a_restart(monkeypatch, tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("default_model: m\n")
    async with scripted_worker() as worker:
        async with guarded(monkeypatch, worker.url, semantic={"config": str(path)}) as gateway:
            before = (await gateway.get("/config/semantic"))[1]["checksum"]
            _, _, headers = await gateway.post("/v1/chat/completions", chat(EMAIL))
            assert "x-vsr-pii-violation" not in headers and gateway.finder.asked == []
            async with asyncio.timeout(20):
                while (await gateway.get("/config/semantic"))[1]["checksum"] == before:
                    written = tmp_path / "written.yaml"
                    written.write_text("default_model: m\nmodel_config: {m: {pii_policy: {}}}\n")
                    written.replace(path)
            _, _, headers = await gateway.post("/v1/chat/completions", chat(EMAIL))
            assert headers["x-vsr-pii-violation"] == "true"
