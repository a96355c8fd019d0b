"""`GET /requests` of a gateway that answers."""

from __future__ import annotations

import asyncio
import json
import time

import pytest

from radixway.api.requests.routes import RequestExplanation, RequestPage
from radixway.core.config import ConfigError, load_config
from support.packed_journals import pack_journals
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

ACME, RIVAL, ROOT = "acme-key", "rival-key", "root-key"
TENANTS = {
    "acme": {"keys": [{"key": ACME, "user": "ann"}]},
    "rival": {"keys": [{"key": RIVAL}]},
    "ops": {"keys": [{"key": ROOT, "scopes": ["admin"]}]},
    "pricing": {"m": {"prompt_per_1m": 2e6, "completion_per_1m": 1e6, "currency": "EUR"}},
}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 4}}


async def counting(exchange) -> None:
    if not exchange.json().get("stream"):
        await exchange.reply(200, json.dumps({"choices": [], "usage": USAGE}).encode())
        return
    await exchange.begin_stream()
    await exchange.chunk(b'data: {"choices": [{"delta": {"content": "a"}}]}\n\n')
    await exchange.chunk(b'data: {"choices": [], "usage": ' + json.dumps(USAGE).encode() + b"}\n\n")
    await exchange.chunk(b"data: [DONE]\n\n")
    await exchange.end_stream()


@pytest.fixture
async def gateway():
    async with scripted_worker(behaviour=counting) as worker, running_gateway(worker.url) as gateway:
        yield gateway


async def test_what_is_told_of_a_request_is_the_same_once_its_journal_is_packed():
    telemetry = {"tracing": {"endpoint": "http://127.0.0.1:1"}}
    async with (
        scripted_worker(behaviour=counting) as one,
        scripted_worker(behaviour=counting) as other,
        running_gateway(one.url, other.url, tenants=TENANTS, telemetry=telemetry) as gateway,
    ):
        root = {"headers": {"authorization": f"Bearer {ROOT}"}}
        for key, fields in (
            (ACME, {"stream": True}),
            (ACME, {}),
            (RIVAL, {"model": "nobody's"}),
            (RIVAL, {}),
        ):
            body = {"model": "m", "messages": [{"role": "user", "content": "hello " * 200}]} | fields
            headers = {"authorization": f"Bearer {key}"}
            async with gateway.client.post(
                gateway.url + "/v1/chat/completions", json=body, headers=headers
            ) as answer:
                await answer.read()

        async def told():
            paths = ["/requests", "/requests?tenant=acme&flags=stream", "/prefixes?source=requests"]
            (_, listed), *others = [await gateway.get(path, **root) for path in paths]
            explained = [await gateway.get(f"/explain/{row['id']}", **root) for row in listed["requests"]]
            assert len(explained) == 4 and explained[0][1]["stretches"]
            return listed, others, explained

        before = await told()
        pack_journals(gateway.gateway.journals)
        assert await told() == before


async def test_a_request_is_listed_and_leads_to_its_explanation(gateway):
    _, _, headers = await gateway.chat(stream=False)
    async with gateway.client.post(
        gateway.url + "/v1/chat/completions",
        json={"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello"}]},
        headers={"x-request-id": "streamed"},
    ) as response:
        await response.read()
    status, told = await gateway.get("/requests")
    assert status == 200
    streamed, whole = RequestPage.model_validate(told).requests
    assert (streamed.id, whole.id) == ("streamed", headers["x-request-id"])
    for row in (streamed, whole):
        assert (row.prompt_tokens, row.completion_tokens, row.cached_tokens) == (11, 7, 4)
        assert (row.status, row.model, row.worker) == (200, "m", headers["x-radixway-worker"])
        assert 0 < row.ttft_ms <= row.total_ms
        told_of_it = (await gateway.get(f"/explain/{row.id}"))[1]
        steps = told_of_it["steps"]
        assert RequestExplanation.model_validate(told_of_it).row == row
        (chosen,) = [step for step in steps if step["step"] == "select"]
        assert chosen["why"] == {row.worker: "chosen"} and row.worker in chosen["candidates"]
        assert [step["cached_tokens"] for step in steps if step["step"] == "tokens"] == [4]
        assert steps[-1]["step"] == "end" and steps[-1]["status"] == 200
    assert streamed.flags == ["stream"] and told["next"] is None and told["kept"] == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_ended_when_its_last_bytes_were_sent(gateway, stream):
    """Its client may have asked another process before it is written down here that it ended."""
    body = json.dumps({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "hello"}]})
    received = [{"type": "http.request", "body": body.encode(), "more_body": False}]
    had_all_at: list[float] = []

    async def receive() -> dict[str, object]:
        return received.pop() if received else await asyncio.Event().wait()

    async def send(message: dict[str, object]) -> None:
        if message["type"] == "http.response.body" and not message.get("more_body"):
            had_all_at.append(time.time())
            await asyncio.sleep(0.05)

    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b""}
    await gateway.gateway(scope | {"headers": [(b"content-type", b"application/json")]}, receive, send)
    (row,) = RequestPage.model_validate((await gateway.get("/requests"))[1]).requests
    assert row.began_at < row.ended_at <= had_all_at[0]
    assert row.began_at + row.total_ms / 1e3 > had_all_at[0], "the entry is later"


async def test_errors_are_listed_without_words_of_the_client(gateway):
    await gateway.post("/v1/chat/completions", {"model": "<b>secret</b>" * 15, "messages": []})
    await gateway.chat(model="nobody-serves-this")
    told = (await gateway.get("/requests?status=4xx&flags=error"))[1]
    assert [row["error"] for row in told["requests"]] == ["model_not_found", "invalid_value"]
    assert "secret" not in json.dumps(told)


MISTAKES = [
    ("limit=0", "limit"),
    ("limit=501", "limit"),
    ("limit=many", "limit"),
    ("cursor=-1", "cursor"),
    ("cursor=abc", "cursor"),
    ("cursor=" + "9" * 40, "cursor"),
    ("status=600", "status"),
    ("status=20", "status"),
    ("status=2xy", "status"),
    ("flags=odd", "flags"),
    ("flags=stream,,error", "flags"),
    ("since=yesterday", "since"),
    ("until=nan", "until"),
    ("since=9999-99-99", "since"),
    ("least_ms=-1", "least_ms"),
    ("q=" + "x" * 257, "q"),
    ("worker=", "worker"),
    ("colour=red", "colour"),
]


async def test_mistakes_are_named(gateway):
    for query, param in MISTAKES:
        status, told = await gateway.get("/requests?" + query)
        assert (query, status, told["error"]["param"]) == (query, 400, param)


async def test_tenants_see_their_own_and_nobody_else_any():
    async with (
        scripted_worker(behaviour=counting) as worker,
        running_gateway(worker.url, tenants=TENANTS) as gateway,
    ):

        def bearer(key):
            return {"headers": {"authorization": f"Bearer {key}"}}

        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        for key in (ACME, RIVAL):
            assert (await gateway.post("/v1/chat/completions", body, **bearer(key)))[0] == 200
        told = (await gateway.get("/requests", **bearer(ROOT)))[1]
        assert [row["tenant"] for row in told["requests"]] == ["rival", "acme"]
        assert [(row["cost"], row["currency"]) for row in told["requests"]] == [(29.0, "EUR")] * 2
        own = (await gateway.get("/requests?tenant=rival", **bearer(ACME)))[1]
        assert own["requests"] == [] and own["kept"] is None
        own = (await gateway.get("/requests", **bearer(ACME)))[1]
        assert [(row["tenant"], row["user"]) for row in own["requests"]] == [("acme", "ann")]
        assert (await gateway.get("/requests"))[0] == 401
        assert (await gateway.get("/requests", **bearer("made-up")))[0] == 401


async def test_with_an_admin_key_nobody_else_sees_any():
    async with running_gateway(gateway={"admin_key": "root"}) as gateway:
        assert (await gateway.get("/requests"))[0] == 401
        assert (await gateway.get("/requests", headers={"authorization": "Bearer root"}))[0] == 200


async def test_a_traced_request_is_found_by_its_trace_and_leads_there():
    sections = {
        "console": {"trace_url": "https://traces.example/{trace_id}?view=1"},
        "telemetry": {"tracing": {"enabled": True, "endpoint": "http://127.0.0.1:9", "sample_ratio": 1}},
    }
    async with (
        scripted_worker(behaviour=counting) as worker,
        running_gateway(worker.url, **sections) as gateway,
    ):
        await gateway.chat()
        await gateway.chat()
        trace_id = (await gateway.get("/requests"))[1]["requests"][0]["trace_id"]
        (found,) = (await gateway.get(f"/requests?q={trace_id}"))[1]["requests"]
        told = (await gateway.get(f"/explain/{found['id']}"))[1]
    assert told["trace_url"] == f"https://traces.example/{trace_id}?view=1"
    assert {"dispatch", "select"} <= {each["name"] for each in told["stretches"]}


def test_where_traces_are_looked_at_is_an_address():
    for wrong in ("javascript:alert({trace_id})", "https://traces.example/"):
        with pytest.raises(ConfigError, match="trace_url"):
            load_config(overrides={"console": {"trace_url": wrong}})


async def test_who_reuses_another_tenants_id_hides_nothing_of_it():
    async with (
        scripted_worker(behaviour=counting) as worker,
        running_gateway(worker.url, tenants=TENANTS) as gateway,
    ):

        def sent(key, request_id="shared"):
            return {"headers": {"authorization": f"Bearer {key}", "x-request-id": request_id}}

        body = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        for key in (ACME, RIVAL, "nobodys-key"):
            _, _, headers = await gateway.post("/v1/chat/completions", body, **sent(key))
            assert headers["x-request-id"] == "shared"  # as the client called it

        async def explained(key, query=""):
            status, told = await gateway.get(f"/explain/shared{query}", **sent(key))
            return status, told["row"]["tenant"]

        assert await explained(ACME) == (200, "acme")
        assert await explained(RIVAL) == (200, "rival")
        assert await explained(RIVAL, "?tenant=acme") == (200, "rival")
        assert await explained(ROOT) == (200, "acme")
        assert await explained(ROOT, "?tenant=rival") == (200, "rival")
        _, told = await gateway.get("/requests", **sent(ROOT))
        assert [row["tenant"] for row in told["requests"]] == [None, "rival", "acme"]
        _, told = await gateway.get("/requests", **sent(ACME))
        assert [row["id"] for row in told["requests"]] == ["shared"]


async def silent_on_usage(exchange) -> None:
    await exchange.begin_stream()
    for word in ("a", "b", "c"):
        await exchange.chunk(b'data: {"choices": [{"delta": {"content": "%s"}}]}\n\n' % word.encode())
    await exchange.chunk(b"data: [DONE]\n\n")
    await exchange.end_stream()


@pytest.mark.parametrize("behaviour", [counting, silent_on_usage])
async def test_the_cost_of_a_stream_is_the_one_that_its_tenant_is_charged(behaviour):
    admin = {"headers": {"authorization": f"Bearer {ROOT}"}}
    async with (
        scripted_worker(behaviour=behaviour) as worker,
        running_gateway(worker.url, tenants=TENANTS) as gateway,
    ):
        async with gateway.client.post(
            gateway.url + "/v1/chat/completions",
            json={"model": "m", "stream": True, "messages": [{"role": "user", "content": "hello " * 20}]},
            headers={"authorization": f"Bearer {ACME}"},
        ) as response:
            await response.read()
        (row,) = (await gateway.get("/requests", **admin))[1]["requests"]
        (charged,) = (await gateway.get("/usage?by=tenant", **admin))[1]["usage"]
    assert charged["prompt_tokens"] > 0 and charged["cost"] > 0
    same = ("cost", "currency", "prompt_tokens", "completion_tokens")
    assert {name: row[name] for name in same} == {name: charged[name] for name in same}
    assert row["estimated"] == bool(charged["estimated"])
