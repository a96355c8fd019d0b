"""Sessions, reservations and recorded conversations with several gateways: each has one, found from all."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

from radixway.cluster.session_ownership import owner_proxy
from radixway.cluster.session_ownership.ownership_keys import GatewayFleet
from radixway.cluster.session_ownership.signed_hop import HEADER
from radixway.core.config import load_config
from radixway.gateway.app import Gateway
from radixway.gateway.embedded.asgi_exchange import InProcessExchange
from support.echoing_worker import answering
from support.free_ports import find_port
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import scripted_worker

KEY = "a key of sixteen characters"
PATIENCE_S = 20


@asynccontextmanager
async def fleet_of(count, *workers, **sections):
    """Gateways that know of each other, at ports of their own."""
    ports = [find_port() for _ in range(count)]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    async with AsyncExitStack() as stack:
        gateways = []
        for url, port in zip(urls, ports, strict=True):
            way = {"gateways": {"self_url": url, "all": urls, "key": KEY}}
            gateways.append(
                await stack.enter_async_context(running_gateway(*workers, port=port, scale=way, **sections))
            )
        yield gateways


def owned_by(gateway: RunningGateway, fleet) -> str:
    return GatewayFleet(gateway.url, [each.url for each in fleet]).make_owned_name()


async def test_a_session_is_made_called_and_read_from_any_gateway():
    async with scripted_worker(answering) as worker, fleet_of(3, worker.url) as fleet:
        one, two, three = fleet
        status, made, headers = await one.post("/sessions", {"session_id": owned_by(two, fleet)})
        assert (status, headers["x-radixway-gateway"]) == (201, two.url)
        name = made["session_id"]
        assert [len(list(each.gateway.sessions.book)) for each in fleet] == [0, 1, 0]
        for each in fleet:
            status, told = await each.get(f"/sessions/{name}")
            assert (status, told["session_id"]) == (200, name)
        status, again, _ = await three.post("/sessions", {"session_id": name})
        assert (status, again["error"]["code"]) == (409, "session_exists")
        async with three.client.delete(f"{three.url}/sessions/{name}") as answer:
            assert (await answer.json())["deleted"]
        assert (await one.get(f"/sessions/{name}"))[0] == 404


async def test_pages_may_read_what_another_gateway_answers():
    page = {"origin": "https://app.example", "authorization": "Bearer hush"}
    sections = {"gateway": {"cors_origins": [page["origin"]]}, "trajectories": {"enabled": True}}
    async with scripted_worker(answering) as worker, fleet_of(2, worker.url, **sections) as fleet:
        name = owned_by(fleet[1], fleet)
        for gateway in fleet:
            asked = {"text": "hello", "session_id": name}
            status, _, headers = await gateway.post("/generate", asked, headers=page)
            assert (status, headers["access-control-allow-origin"]) == (200, page["origin"])


async def test_a_session_without_a_name_gets_one_that_leads_back_to_it():
    async with scripted_worker(answering) as worker, fleet_of(2, worker.url) as (one, two):
        for _ in range(4):
            status, made, headers = await one.post("/sessions", {})
            assert status == 201 and "x-radixway-gateway" not in headers
            assert (await two.get(f"/sessions/{made['session_id']}"))[0] == 200
        assert len(list(one.gateway.sessions.book)) == 4


async def test_a_reservation_is_freed_from_another_gateway_than_made_it():
    async with scripted_worker(answering) as worker, fleet_of(2, worker.url) as fleet:
        one, two = fleet
        for given in ({"request_id": owned_by(two, fleet)}, {}):
            question = {"messages": [{"role": "user", "content": "hello"}], "model": "m", **given}
            status, held, _ = await one.post("/select_and_reserve", question)
            assert status == 200
            assert one.in_flight() + two.in_flight() == 1
            assert (await two.post("/prefill_complete", {"request_id": held["request_id"]}))[0] == 200
            assert (await two.post("/free", {"request_id": held["request_id"]}))[0] == 200
            assert one.in_flight() + two.in_flight() == 0
        assert (await one.post("/free", {"request_id": "never made"}))[0] == 404


async def test_the_turns_of_a_conversation_go_to_the_gateway_that_has_its_record():
    async with scripted_worker(answering) as worker:
        async with fleet_of(2, worker.url, trajectories={"enabled": True}) as fleet:
            one, two = fleet
            name = owned_by(two, fleet)
            for gateway in fleet:
                _, told, headers = await gateway.post("/generate", {"text": "hello", "session_id": name})
                assert told["text"] == "hello"
                assert (headers.get("x-radixway-gateway") == two.url) == (gateway is one)
            for path, body in (
                ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hello"}]}),
                ("/retrieve_from_text", {"text": "hello"}),
            ):
                _, _, headers = await one.post(path, body, headers={"x-session-id": name})
                assert headers["x-radixway-gateway"] == two.url
            _, _, headers = await one.post("/generate", {"text": "hello"})
            assert "x-radixway-gateway" not in headers


async def test_a_session_bound_to_a_worker_is_bound_for_all_gateways():
    async with scripted_worker(answering) as first, scripted_worker(answering) as second:
        routing = {"policy": "sticky_least_loaded"}
        async with fleet_of(2, first.url, second.url, routing=routing) as fleet:
            one, two = fleet
            for _ in range(3):
                name = owned_by(two, fleet)
                workers = set()
                for gateway in fleet:
                    asked = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
                    session = {"x-session-id": name}
                    status, _, headers = await gateway.post("/v1/chat/completions", asked, headers=session)
                    assert status == 200
                    assert (headers.get("x-radixway-gateway") == two.url) == (gateway is one)
                    workers.add(headers["x-radixway-worker"])
                assert len(workers) == 1


async def test_streams_pass_event_by_event_and_whoever_leaves_frees_the_worker():
    async with scripted_worker(answering) as worker, asyncio.timeout(PATIENCE_S):
        async with fleet_of(2, worker.url, trajectories={"enabled": True}) as fleet:
            one, two = fleet
            body = {"text": "hold", "session_id": owned_by(two, fleet), "stream": True}
            async with one.client.post(f"{one.url}/generate", json=body) as answer:
                assert await answer.content.readuntil(b"\n\n")
                assert two.in_flight() == 1 and one.in_flight() == 0
            await worker.hung_up.wait()


async def test_a_journal_is_found_wherever_its_request_was():
    async with scripted_worker(answering) as worker, fleet_of(3, worker.url) as (one, two, three):
        _, _, headers = await three.chat(model="m")
        name = headers["x-request-id"]
        for gateway in (one, two, three):
            status, told = await gateway.get(f"/explain/{name}")
            assert (status, told["request_id"]) == (200, name)
        assert (await one.get("/explain/nobody-asked"))[0] == 404


async def test_a_gateway_that_hangs_keeps_nobody_waiting_for_a_journal(monkeypatch):
    monkeypatch.setattr(owner_proxy, "_EXPLAIN_S", 0.1)
    hanging = asyncio.Event()

    async def hang(reader, writer):
        await hanging.wait()
        writer.close()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    silent = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    port = find_port()
    own = f"http://127.0.0.1:{port}"
    way = {"gateways": {"self_url": own, "all": [own, silent], "key": KEY}}
    async with server, running_gateway(port=port, scale=way) as one, asyncio.timeout(PATIENCE_S):
        assert (await one.get("/explain/nobody-asked"))[0] == 404
        hanging.set()


async def test_whose_request_it_is_stays_so_on_the_way():
    tenants = {
        "acme": {"keys": [{"key": "acme-key"}]},
        "ops": {"keys": [{"key": "root-key", "scopes": ["user", "admin"]}]},
    }
    async with scripted_worker(answering) as worker, fleet_of(2, worker.url, tenants=tenants) as fleet:
        one, two = fleet
        name = owned_by(two, fleet)
        for key, status in ((None, 401), ("acme-key", 403), ("root-key", 201)):
            headers = {"authorization": f"Bearer {key}"} if key else {}
            assert (await one.post("/sessions", {"session_id": name}, headers=headers))[0] == status


async def test_an_address_that_may_not_administer_may_not_by_way_of_another_gateway():
    async with scripted_worker(answering) as worker, fleet_of(2, worker.url) as fleet:
        one, two = fleet
        body = json.dumps({"session_id": owned_by(two, fleet)}).encode()
        for address, status in (("203.0.113.9", 401), ("127.0.0.1", 201)):
            asking = InProcessExchange(one.gateway, "POST", "/sessions", [], body, client=(address, 0))
            async with asking as answer:
                assert answer.status == status
                assert answer.headers["x-radixway-gateway"] == two.url


async def test_a_client_cannot_pretend_to_be_a_gateway():
    async with scripted_worker(answering) as worker, fleet_of(2, worker.url) as (one, _):
        forged = {HEADER.decode(): "1000.000 127.0.0.1 00"}
        status, refused, _ = await one.post("/sessions", {}, headers=forged)
        assert (status, refused["error"]["param"]) == (403, HEADER.decode())


async def test_what_a_gateway_keeps_that_is_away_cannot_be_had_and_all_else_can():
    async with scripted_worker(answering) as worker:
        away = f"http://127.0.0.1:{find_port()}"
        port = find_port()
        own = f"http://127.0.0.1:{port}"
        way = {"gateways": {"self_url": own, "all": [own, away], "key": KEY}}
        async with running_gateway(worker.url, port=port, scale=way, trajectories={"enabled": True}) as one:
            theirs = GatewayFleet(away, [own, away]).make_owned_name()
            status, told, headers = await one.post("/sessions", {"session_id": theirs})
            assert (status, told["error"]["code"], headers["retry-after"]) == (503, "gateway_away", "1")
            assert away in told["error"]["message"]
            assert (await one.post("/generate", {"text": "hello", "session_id": theirs}))[0] == 200
            assert (await one.post("/sessions", {}))[0] == 201


async def test_a_body_that_is_too_large_is_refused_before_it_is_passed_on():
    async with scripted_worker(answering) as worker:
        async with fleet_of(2, worker.url, gateway={"max_body_bytes": 2048}) as (one, _):
            status, told, _ = await one.post("/sessions", {"session_id": "x" * 4000})
            assert (status, told["error"]["code"]) == (413, "body_too_large")


async def test_what_is_not_shared_is_said_at_the_start(caplog):
    sync = {"redis": "redis://127.0.0.1:1"}
    sections = {
        "scale": {"sync": sync},
        "tenants": {"acme": {"rates": {"concurrent": 3}}, "usage": {"persist": True}},
        "trajectories": {"enabled": True},
        "semantic_cache": {"enabled": True},
    }
    Gateway(load_config(overrides=sections))
    told = " ".join(record.message for record in caplog.records if "several gateways" in record.message)
    for remedy in ("scale.gateways", "scale.limits", "semantic_cache.backend", "chat.database", "/usage"):
        assert remedy in told
    caplog.clear()
    Gateway(load_config(overrides={**sections, "scale": {}}))
    assert "several gateways" not in caplog.text
