"""Tenants on the wire: keys, what each may use, what keeps them apart, and what they are told at a limit."""

from __future__ import annotations

import asyncio
import json
from contextlib import asynccontextmanager
from hashlib import sha256

import pytest

from support.running_gateway import running_gateway
from support.scripted_worker import ScriptedWorker, scripted_worker

ACME, RIVAL, PROXY, ROOT, ENGINE = "acme-key", "rival-key", "proxy-key", "root-key", "engine-key"
TENANTS = {
    "acme": {"keys": [{"key": ACME, "user": "ann"}]},
    "rival": {"keys": [{"key_sha256": sha256(RIVAL.encode()).hexdigest()}]},
    "ops": {
        "keys": [
            {"key": PROXY, "scopes": ["trusted"]},
            {"key": ROOT, "scopes": ["user", "admin"]},
            {"key": ENGINE, "scopes": ["worker"]},
        ]
    },
}
CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}}


def bearer(key: str, **more: str) -> dict[str, dict[str, str]]:
    return {"headers": {"authorization": f"Bearer {key}", **more}}


def with_(**more):
    """The tenants, with more said of some."""
    return {name: TENANTS.get(name, {}) | more.get(name, {}) for name in {*TENANTS, *more}}


async def counting(exchange) -> None:
    """An answer with figures, in the dialect and the form that were asked for."""
    body = exchange.json() if exchange.body else {}
    if exchange.path == "/generate":
        reply = {"text": "ok", "meta_info": {"prompt_tokens": 5, "completion_tokens": 2}}
    else:
        reply = {"choices": [{"index": 0, "message": {"content": "ok"}}], "usage": USAGE}
    if not body.get("stream"):
        await exchange.reply(200, json.dumps(reply).encode())
        return
    await exchange.begin_stream()
    for piece in ("a", "b", "c"):
        event = {"choices": [{"index": 0, "delta": {"content": piece}}]}
        await exchange.chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
    if "stream_options" in body:
        await exchange.chunk(b"data: " + json.dumps({"choices": [], "usage": USAGE}).encode() + b"\n\n")
    await exchange.chunk(b"data: [DONE]\n\n")
    await exchange.end_stream()


@asynccontextmanager
async def tenants_gateway(worker: ScriptedWorker, tenants=TENANTS, **more):
    async with running_gateway(worker.url, tenants=tenants, **more) as gateway:
        yield gateway


async def ask(gateway, key: str, **fields):
    return await gateway.post("/v1/chat/completions", CHAT | fields, **bearer(key))


async def usage(gateway, query: str = "", key: str = ROOT):
    return (await gateway.get(f"/usage{query}", **bearer(key)))[1]


# Keys


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", CHAT),
        ("/v1/completions", {"model": "m", "prompt": "hello"}),
        ("/generate", {"text": "hello"}),
        ("/tokenize", {"prompt": "hello"}),
        ("/retrieve_from_text", {"text": "hello"}),
    ],
)
async def test_every_path_that_answers_needs_a_key_and_takes_it_in_either_header(path, body):
    async with scripted_worker(counting) as worker, tenants_gateway(worker) as gateway:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"x-api-key": "wrong"}):
            status, refused, _ = await gateway.post(path, body, headers=headers)
            assert (status, refused["error"]["type"]) == (401, "authentication_error"), headers
        assert not worker.requests
        for headers in ({"authorization": f"Bearer {ACME}"}, {"x-api-key": RIVAL}):
            status, _, _ = await gateway.post(path, body, headers=headers)
            assert status not in (401, 403)


async def test_a_refusal_comes_before_the_body_is_judged_and_has_openais_shape():
    async with scripted_worker() as worker, tenants_gateway(worker) as gateway:
        status, body, _ = await gateway.post("/v1/chat/completions", b"{")
    assert (status, body["error"]["code"]) == (401, "invalid_api_key")
    assert set(body["error"]) == {"message", "type", "param", "code"}


async def test_agents_are_refused_in_their_own_protocol():
    async with scripted_worker() as worker, tenants_gateway(worker) as gateway:
        body = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "hello"}]}
        status, refused, _ = await gateway.post("/sessions/s/v1/messages", body)
        counted, _, _ = await gateway.post("/sessions/s/v1/messages/count_tokens", body)
    assert status == counted == 401
    assert (refused["type"], refused["error"]["type"]) == ("error", "authentication_error")


async def test_probes_need_no_key():
    async with scripted_worker() as worker, tenants_gateway(worker) as gateway:
        for path in ("/health", "/ready"):
            async with gateway.client.get(gateway.url + path) as response:
                assert response.status == 200


@pytest.mark.parametrize(
    "path", ["/list_workers", "/sessions", "/explain/x", "/get_weight_version", "/usage"]
)
async def test_looking_needs_a_key_too(path):
    async with scripted_worker() as worker, tenants_gateway(worker) as gateway:
        assert (await gateway.get(path))[0] == 401


async def test_workers_never_see_the_gateways_keys():
    async with scripted_worker(counting) as worker, tenants_gateway(worker) as gateway:
        both = {"authorization": f"Bearer {ACME}", "x-api-key": ACME}
        await gateway.post("/v1/chat/completions", CHAT, headers=both)
        seen = worker.requests[-1]
    assert ACME not in str(seen.headers) + seen.body.decode()


async def test_keys_are_neither_shown_nor_kept():
    async with scripted_worker(counting) as worker, tenants_gateway(worker) as gateway:
        _, _, headers = await ask(gateway, ACME)
        _, journal = await gateway.get(f"/explain/{headers['x-request-id']}", **bearer(ROOT))
        told = json.dumps(journal) + gateway.gateway.config.model_dump_json()
        ring = gateway.gateway.tenants.ring
    assert all(key not in told for key in (ACME, PROXY, ROOT))
    assert ACME.encode() not in b"".join(ring._known) and sha256(ACME.encode()).digest() not in ring._known


async def test_administrative_calls_need_an_admins_key_or_the_gateways_own():
    async with (
        scripted_worker() as worker,
        tenants_gateway(worker, gateway={"admin_key": "hush"}) as gateway,
    ):
        statuses = {
            key: (await gateway.post("/flush_cache", {}, **bearer(key)))[0]
            for key in (ACME, ENGINE, "wrong", ROOT, "hush")
        }
    assert statuses == {ACME: 403, ENGINE: 403, "wrong": 401, ROOT: 200, "hush": 200}


async def test_being_on_this_machine_makes_nobody_an_admin_once_there_are_keys():
    async with scripted_worker() as worker, tenants_gateway(worker) as gateway:
        status, body, _ = await gateway.post("/flush_cache", {})
    assert (status, body["error"]["type"]) == (401, "authentication_error")


async def test_a_workers_key_adds_workers_and_asks_nothing():
    async with scripted_worker(counting) as worker, tenants_gateway(worker) as gateway:
        status, _, _ = await gateway.post("/add_worker", {"url": worker.url}, **bearer(ENGINE))
        assert status == 200
        assert (await gateway.get("/list_workers", **bearer(ENGINE)))[0] == 200
        assert (await ask(gateway, ENGINE))[0] == 403
        assert (await gateway.post("/add_worker", {"url": worker.url}, **bearer(ACME)))[0] == 403


# Trusted callers


async def test_only_a_trusted_key_says_whose_a_request_is():
    async with scripted_worker(counting) as worker, tenants_gateway(worker) as gateway:
        for key in (PROXY, RIVAL):
            await gateway.post("/v1/chat/completions", CHAT, **bearer(key, **{"x-tenant-id": "acme"}))
        rows = (await usage(gateway, "?by=tenant"))["usage"]
        status, body, _ = await gateway.post(
            "/v1/chat/completions", CHAT, **bearer(PROXY, **{"x-tenant-id": "nobody"})
        )
        seen = worker.requests[-1].headers
    assert {row["tenant"]: row["requests"] for row in rows} == {"acme": 1, "rival": 1}
    assert (status, body["error"]["param"]) == (403, "x-tenant-id")
    assert "x-tenant-id" not in seen


async def test_a_trusted_network_that_names_a_tenant_needs_no_key():
    hops = {"trusted_hops": ["127.0.0.0/8"]}
    async with scripted_worker(counting) as worker, tenants_gateway(worker, gateway=hops) as gateway:
        assert (await gateway.post("/v1/chat/completions", CHAT))[0] == 401
        status, _, _ = await gateway.post("/v1/chat/completions", CHAT, headers={"x-tenant-id": "acme"})
        assert status == 200
        assert (await ask(gateway, ACME))[0] == 200


async def test_a_trusted_keys_destination_headers_count_and_others_do_not():
    async with scripted_worker(counting, models=["m", "big"]) as worker, tenants_gateway(worker) as gateway:
        for key in (PROXY, ACME):
            named = bearer(key, **{"x-vsr-selected-model": "big"})
            await gateway.post("/v1/chat/completions", CHAT, **named)
        models = [exchange.json()["model"] for exchange in worker.requests]
    assert models == ["big", "m"]


# What a tenant may use


async def test_a_tenant_is_shown_and_given_its_own_models_alone():
    tenants = with_(acme={"models": ["small", "qwen-*"]})
    async with (
        scripted_worker(counting, models=["big", "qwen-7b"]) as worker,
        tenants_gateway(worker, tenants) as gateway,
    ):
        listed = [model["id"] for model in (await gateway.get("/v1/models", **bearer(ACME)))[1]["data"]]
        everything = (await gateway.get("/v1/models", **bearer(RIVAL)))[1]["data"]
        assert (await gateway.get("/v1/models/big", **bearer(ACME)))[0] == 404
        status, body, _ = await ask(gateway, ACME, model="big")
        assert (status, body["error"]["param"]) == (404, "model")
        assert (await ask(gateway, ACME, model="qwen-7b"))[0] == 200
        assert (await ask(gateway, RIVAL, model="big"))[0] == 200
    assert listed == ["qwen-7b"]
    assert len(everything) == 2


async def test_whoever_leaves_the_model_open_is_given_one_that_the_tenant_may_use():
    tenants = with_(acme={"models": ["qwen-*"]})
    async with (
        scripted_worker(counting, models=["big"]) as forbidden,
        scripted_worker(counting, models=["large", "qwen-7b"]) as allowed,
        running_gateway(forbidden.url, allowed.url, tenants=tenants) as gateway,
    ):
        for _ in range(4):
            assert (await ask(gateway, ACME, model="auto"))[0] == 200
            assert (await gateway.post("/generate", {"text": "hi"}, **bearer(ACME)))[0] == 200
        models = {exchange.json()["model"] for exchange in allowed.requests}
    assert not forbidden.requests
    assert models == {"qwen-7b"}


async def test_a_fallback_is_none_for_a_tenant_that_may_not_use_it():
    tenants = with_(acme={"models": ["small"]})
    async with (
        scripted_worker(counting, models=["big"]) as worker,
        tenants_gateway(worker, tenants, routing={"fallbacks": {"small": "big"}}) as gateway,
    ):
        assert (await ask(gateway, ACME, model="small"))[0] == 404
        assert (await ask(gateway, RIVAL, model="small"))[0] == 200


async def test_a_tenants_requests_go_to_its_pools_alone():
    tenants = with_(acme={"pools": ["gold"]})
    async with scripted_worker(counting) as gold, scripted_worker(counting, models=["m", "big"]) as other:
        workers = [{"url": gold.url, "pools": ["gold", "eu"]}, {"url": other.url, "pools": ["us"]}]
        async with running_gateway(workers=workers, tenants=tenants) as gateway:
            for worker in (gold, other):
                await gateway.post("/add_worker", {"url": worker.url}, **bearer(ROOT))
            for _ in range(6):
                assert (await ask(gateway, ACME))[0] == 200
            assert (await ask(gateway, ACME, model="big"))[0] == 404
            assert not other.requests
            await gateway.post("/remove_worker", {"url": gold.url}, **bearer(ROOT))
            status, body, _ = await ask(gateway, ACME)
            assert (status, body["error"]["code"]) == (503, "no_workers")
            assert (await ask(gateway, RIVAL))[0] == 200


async def test_a_pinned_worker_outside_of_the_pools_is_not_asked():
    tenants = with_(acme={"pools": ["gold"]})
    async with scripted_worker(counting) as other, tenants_gateway(other, tenants) as gateway:
        headers = {"x-tenant-id": "acme", "x-worker-instance-id": other.url}
        status, _, _ = await gateway.post("/v1/chat/completions", CHAT, **bearer(PROXY, **headers))
    assert status == 503
    assert not other.requests


async def test_the_semantic_layer_weighs_only_models_that_the_tenant_may_use():
    semantic = {
        "default_model": "general",
        "model_config": {"small": {"pricing": {"prompt_per_1m": 1e6}}},
        "keyword_rules": [{"category": "math", "keywords": ["theorem"]}],
        "fusion": {"certain_at": 0.6},
        "categories": [
            {
                "name": "math",
                "model_scores": [
                    {"model": name, "score": score, "use_reasoning": False}
                    for name, score in (("prover", 1.0), ("small", 0.1))
                ],
            }
        ],
    }
    tenants = with_(acme={"models": ["small"]})
    question = {"model": "MoM", "messages": [{"role": "user", "content": "Prove the theorem."}]}
    async with (
        scripted_worker(counting, models=["general", "prover", "small"]) as worker,
        tenants_gateway(worker, tenants, semantic=semantic, encoders={"backend": "numpy"}) as gateway,
    ):
        for key in (ACME, RIVAL):
            assert (await ask(gateway, key, **question))[0] == 200
        models = [exchange.json()["model"] for exchange in worker.requests]
        rows = (await usage(gateway))["usage"]
        listed = [model["id"] for model in (await gateway.get("/v1/models", **bearer(ACME)))[1]["data"]]
    assert models == ["small", "prover"]
    assert {(row["tenant"], row["model"], row["category"], row["cost"]) for row in rows} == {
        ("acme", "small", "math", 11.0),
        ("rival", "prover", "math", 0.0),
    }
    assert "small" in listed and "prover" not in listed and "MoM" in listed


# What keeps tenants apart


async def test_a_salt_travels_as_each_path_has_it_and_a_clients_own_stays_within_it():
    tenants = with_(acme={"cache_salt": "s3cret"})
    async with scripted_worker(counting) as worker, tenants_gateway(worker, tenants) as gateway:
        await ask(gateway, ACME)
        await ask(gateway, ACME, cache_salt="mine")
        await gateway.post("/generate", {"text": "hi", "extra_key": "k"}, **bearer(ACME))
        await ask(gateway, RIVAL)
        status, body, _ = await ask(gateway, ACME, cache_salt=5)
        first, second, generate, rival = (exchange.json() for exchange in worker.requests)
    assert first == CHAT | {"cache_salt": "s3cret"}
    assert second["cache_salt"] == "s3cret/mine"
    assert generate["extra_key"] == "s3cret/k" and "cache_salt" not in generate
    assert rival == CHAT
    assert (status, body["error"]["param"]) == (400, "cache_salt")


async def test_kept_answers_stay_with_their_tenant_unless_two_share_a_namespace():
    tenants = with_(
        acme={"cache_namespace": "shared", "cache_salt": "a"},
        rival={},
        ally={"keys": [{"key": "ally-key"}], "cache_namespace": "shared", "cache_salt": "b"},
    )
    cache = {"enabled": True, "share": "tenant"}
    question = {"messages": [{"role": "user", "content": "法国的首都是哪里？"}]}
    reply = {
        "id": "1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": "巴黎"}, "finish_reason": "stop"}
        ],
        "usage": USAGE,
    }

    async def answer(exchange) -> None:
        await exchange.reply(200, json.dumps(reply).encode())

    async with (
        scripted_worker(answer) as worker,
        tenants_gateway(worker, tenants, semantic_cache=cache, encoders={"backend": "numpy"}) as gateway,
    ):
        await ask(gateway, ACME, **question)
        await gateway.gateway.cache.middleware.wait_for_writes()
        hits = {}
        for key in (ACME, "ally-key", RIVAL):
            _, _, headers = await ask(gateway, key, **question)
            hits[key] = headers.get("x-vsr-cache-hit")
            if key == ACME:
                hit = headers["x-request-id"]
        rows = (await usage(gateway, "?by=tenant"))["usage"]
        entry = (await gateway.get(f"/explain/{hit}", **bearer(ACME)))[1]["steps"][2]["entry"]
        by_id, by_entry = {"request_id": hit}, {"entry": entry}
        reports = [
            (await gateway.post("/cache/report", body, **bearer(key)))[:2]
            for key, body in ((RIVAL, by_id), (RIVAL, by_entry), (ACME, by_id))
        ]
    assert hits == {ACME: "true", "ally-key": "true", RIVAL: None}
    assert [status for status, _ in reports] == [404, 200, 200]
    assert [told.get("removed") for _, told in reports] == [None, False, True]
    kept = {row["tenant"]: (row["kept_answers"], row["total_tokens"]) for row in rows if row["kept_answers"]}
    assert kept == {"acme": (1, 18), "ally": (1, 0)}


async def test_a_tenant_judges_its_own_answers_alone():
    refs = [{"model": "m", "use_reasoning": False}]
    semantic = {
        "decisions": [{"name": "all", "rules": {"type": "language", "name": "en"}, "modelRefs": refs}]
    }
    async with (
        scripted_worker(counting) as worker,
        tenants_gateway(worker, semantic=semantic, encoders={"backend": "numpy"}) as gateway,
    ):
        for key in (ACME, RIVAL):  # of the same id, which clients choose
            headers = {"authorization": f"Bearer {key}", "x-request-id": "1"}
            body = CHAT | {"model": "auto"}
            assert (await gateway.post("/v1/chat/completions", body, headers=headers))[0] == 200
        judged = {"request_id": "1", "rating": "down"}
        statuses = [
            (await gateway.post("/feedback", judged, **bearer(key)))[0] for key in (RIVAL, RIVAL, ACME, ROOT)
        ]
    assert statuses == [200, 404, 200, 404]


async def test_a_tenant_sees_its_own_journals_alone():
    async with scripted_worker(counting) as worker, tenants_gateway(worker) as gateway:
        _, _, headers = await ask(gateway, ACME)
        path = f"/explain/{headers['x-request-id']}"
        statuses = [(await gateway.get(path, **bearer(key)))[0] for key in (ACME, RIVAL, ROOT)]
    assert statuses == [200, 404, 200]


# Limits


async def test_a_limit_of_requests_in_hand_holds_under_concurrency_and_others_go_on():
    entered, leave = asyncio.Semaphore(0), asyncio.Event()

    async def slow(exchange) -> None:
        entered.release()
        await leave.wait()
        await counting(exchange)

    tenants = with_(acme={"rates": {"concurrent": 3}})
    async with scripted_worker(slow) as worker, tenants_gateway(worker, tenants) as gateway:
        held = [asyncio.create_task(ask(gateway, ACME)) for _ in range(3)]
        for _ in held:
            await entered.acquire()
        refused = await asyncio.gather(*(ask(gateway, ACME) for _ in range(5)))
        rival = asyncio.create_task(ask(gateway, RIVAL))
        await entered.acquire()
        leave.set()
        assert [status for status, _, _ in await asyncio.gather(*held, rival)] == [200] * 4
        assert (await ask(gateway, ACME))[0] == 200
        account = gateway.gateway.tenants.accounts["acme"]
        account.check_reservations()
    assert account.in_flight == 0
    for status, body, headers in refused:
        assert (status, body["error"]["code"]) == (429, "concurrent")
        assert body["error"]["type"] == "rate_limit_error"
        assert headers["retry-after"] == "1"


async def test_requests_at_once_cannot_overspend_tokens_because_estimates_are_reserved():
    entered, leave = asyncio.Semaphore(0), asyncio.Event()

    async def slow(exchange) -> None:
        entered.release()
        await leave.wait()
        await counting(exchange)

    tenants = with_(acme={"quotas": {"tokens_per_day": 400}})
    async with scripted_worker(slow) as worker, tenants_gateway(worker, tenants) as gateway:
        held = [asyncio.create_task(ask(gateway, ACME, max_tokens=150)) for _ in range(2)]
        for _ in held:
            await entered.acquire()
        refused = await asyncio.gather(*(ask(gateway, ACME, max_tokens=150) for _ in range(6)))
        leave.set()
        assert [status for status, _, _ in await asyncio.gather(*held)] == [200, 200]
        assert (await ask(gateway, ACME, max_tokens=150))[0] == 200
        limits = (await usage(gateway, "?tenant=acme"))["limits"]
    for status, body, headers in refused:
        assert (status, body["error"]["code"]) == (429, "tokens_per_day")
        assert 0 < int(headers["retry-after"]) <= 86_400
    assert limits[0]["used"] == 3 * 18


async def test_a_client_that_leaves_gives_its_reservation_back():
    entered = asyncio.Event()

    async def never(exchange) -> None:
        entered.set()
        await exchange.until_peer_leaves()

    tenants = with_(acme={"rates": {"concurrent": 1}, "quotas": {"tokens_per_day": 10_000}})
    async with scripted_worker(never) as worker, tenants_gateway(worker, tenants) as gateway:
        asking = asyncio.create_task(ask(gateway, ACME))
        await entered.wait()
        asking.cancel()
        await worker.hung_up.wait()
        account = gateway.gateway.tenants.accounts["acme"]
        account.check_reservations()
        rows = (await usage(gateway, "?by=tenant"))["usage"]
    assert (account.in_flight, account.reserved_tokens) == (0, 0)
    assert [(row["tenant"], row["requests"], row["estimated"]) for row in rows] == [("acme", 1, 1)]


async def test_failures_cost_nothing_and_are_told_apart():
    async def fail(exchange) -> None:
        await exchange.reply(400, b'{"error": {"message": "no"}}')

    tenants = with_(acme={"quotas": {"tokens_per_day": 5}})
    async with scripted_worker(fail) as worker, tenants_gateway(worker, tenants) as gateway:
        for _ in range(3):
            assert (await ask(gateway, ACME))[0] == 400
        await ask(gateway, ACME, model="unheard-of")
        rows = (await usage(gateway))["usage"]
    assert {(row["model"], row["requests"], row["failed"], row["total_tokens"]) for row in rows} == {
        ("m", 3, 3, 0),
        ("unknown", 1, 1, 0),
    }


# Usage


@pytest.mark.parametrize(
    ("path", "body", "tokens"),
    [
        ("/v1/chat/completions", CHAT, (11, 7, 4, 0)),
        ("/v1/completions", {"model": "m", "prompt": "hello"}, (11, 7, 4, 0)),
        ("/generate", {"text": "hello"}, (5, 2, 0, 0)),
        (
            "/v1/chat/completions",
            CHAT | {"stream": True, "stream_options": {"include_usage": True}},
            (11, 7, 4, 0),
        ),
    ],
)
async def test_what_a_worker_reports_is_what_is_counted(path, body, tokens):
    tenants = TENANTS | {"pricing": {"m": {"prompt_per_1m": 1e6, "completion_per_1m": 2e6}}}
    async with scripted_worker(counting) as worker, tenants_gateway(worker, tenants) as gateway:
        async with gateway.client.post(gateway.url + path, json=body, **bearer(ACME)) as response:
            await response.read()
        (row,) = (await usage(gateway))["usage"]
    counted = tuple(
        row[name] for name in ("prompt_tokens", "completion_tokens", "cached_tokens", "estimated")
    )
    assert counted == tokens
    assert (row["tenant"], row["model"], row["category"], row["currency"]) == ("acme", "m", "", "USD")
    assert row["cost"] == tokens[0] + 2 * tokens[1]


async def test_a_stream_that_reports_nothing_is_estimated_and_says_so():
    async with scripted_worker(counting) as worker, tenants_gateway(worker) as gateway:
        async with gateway.client.post(
            gateway.url + "/v1/chat/completions", json=CHAT | {"stream": True}, **bearer(ACME)
        ) as response:
            await response.read()
            request_id = response.headers["x-request-id"]
        (row,) = (await usage(gateway))["usage"]
        _, journal = await gateway.get(f"/explain/{request_id}", **bearer(ACME))
    assert (row["estimated"], row["completion_tokens"]) == (1, 3)
    assert row["prompt_tokens"] > 0
    told = next(step for step in journal["steps"] if step["step"] == "usage")
    assert (told["estimated"], told["completion_tokens"], told["model"]) == (1, 3, "m")


async def test_a_tenant_sees_its_own_usage_and_limits_and_no_others():
    tenants = with_(acme={"rates": {"requests_per_minute": 9}})
    async with scripted_worker(counting) as worker, tenants_gateway(worker, tenants) as gateway:
        await ask(gateway, ACME)
        await ask(gateway, RIVAL)
        mine = await usage(gateway, key=ACME)
        refused, body = await gateway.get("/usage?tenant=rival", **bearer(ACME))
        everybody = await usage(gateway, "?by=tenant,model")
    assert [(row["tenant"], row["requests"]) for row in mine["usage"]] == [("acme", 1)]
    assert mine["limits"] == [{"name": "requests_per_minute", "limit": 9, "used": 1, "window_s": 60}]
    assert (refused, body["error"]["param"]) == (403, "tenant")
    assert [(row["tenant"], row["model"]) for row in everybody["usage"]] == [("acme", "m"), ("rival", "m")]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("from=yesterday", "from"),
        ("to=2026-13-01", "to"),
        ("from=2026-02-02&to=2026-02-01", "from"),
        ("by=tenant,colour", "by"),
        ("tenant=nobody", "tenant"),
    ],
)
async def test_a_question_about_usage_that_makes_no_sense_names_its_field(query, param):
    async with running_gateway(tenants=TENANTS) as gateway:
        status, body = await gateway.get(f"/usage?{query}", **bearer(ROOT))
    assert (status, body["error"]["param"]) == (400, param)


async def test_without_tenants_nothing_is_counted_and_no_key_is_needed():
    async with scripted_worker(counting) as worker, running_gateway(worker.url) as gateway:
        assert (await gateway.chat())[0] == 200
        status, body = await gateway.get("/usage")
    assert (status, body["error"]["code"]) == (404, "usage_off")
    assert gateway.gateway.tenants is None


async def test_without_keys_everybody_is_the_default_tenant_with_its_limits():
    tenants = {"default": {"rates": {"requests_per_minute": 1}, "models": ["m"]}}
    async with (
        scripted_worker(counting, models=["m", "big"]) as worker,
        tenants_gateway(worker, tenants) as gateway,
    ):
        assert (await gateway.chat())[0] == 200
        assert (await gateway.chat())[0] == 429
        assert len((await gateway.get("/v1/models"))[1]["data"]) == 1
        assert (await gateway.get("/usage"))[1]["usage"][0]["tenant"] == "default"


async def test_quotas_outlive_a_restart(tmp_path):
    tenants = with_(acme={"quotas": {"tokens_per_day": 45}}) | {
        "usage": {"persist": True, "path": str(tmp_path / "usage.sqlite")}
    }
    async with scripted_worker(counting) as worker:
        async with tenants_gateway(worker, tenants) as gateway:
            for _ in range(2):
                assert (await ask(gateway, ACME, max_tokens=1))[0] == 200
        async with tenants_gateway(worker, tenants) as gateway:
            status, body, _ = await ask(gateway, ACME, max_tokens=1)
            (row,) = (await usage(gateway, key=ACME))["usage"]
            health = (await gateway.get("/health", **bearer(ROOT)))[1]
    assert (status, body["error"]["code"]) == (429, "tokens_per_day")
    assert (row["requests"], row["total_tokens"]) == (2, 36)
    assert health["tenants"]["usage"]["error"] is None


async def test_metrics_name_configured_tenants_alone():
    async with scripted_worker(counting) as worker, tenants_gateway(worker) as gateway:
        await ask(gateway, ACME)
        await gateway.post("/v1/chat/completions", CHAT, **bearer(PROXY, **{"x-tenant-id": "made-up"}))
        async with gateway.client.get(gateway.url + "/metrics/prometheus", **bearer(ROOT)) as response:
            text = await response.text()
    assert 'radixway_tenant_requests_total{model="m",outcome="answered",tenant="acme"} 1.0' in text
    assert 'radixway_tenant_tokens_total{kind="prompt",model="m",tenant="acme"} 11.0' in text
    assert "made-up" not in text
