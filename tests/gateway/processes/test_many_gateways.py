"""Two gateways of two processes each: `scale.gateways` leads to a gateway, and there to a process."""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from gateway.processes.conftest import many_processes
from support.free_ports import find_port
from support.scripted_worker import scripted_worker

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
CLOSE = {"connection": "close"}


async def post(client, url, body):
    """Status and answer, over a connection of its own."""
    async with client.post(url, json=body, headers=CLOSE) as answer:
        return answer.status, await answer.json(content_type=None)


@pytest.mark.slow
async def test_sessions_and_reservations_are_found_from_every_process_of_every_gateway(tmp_path, client):
    ports = [find_port(), find_port()]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    names = [f"agent-{number}" for number in range(8)]
    async with scripted_worker(models=("m",)) as worker, AsyncExitStack() as stack:
        gateways = []
        for port, url in zip(ports, urls, strict=True):
            home = tmp_path / str(port)
            home.mkdir()
            tree = {
                "gateway": {"port": port},
                "workers": [{"url": worker.url}],
                "scale": {"gateways": {"self_url": url, "all": urls, "key": "a key of sixteen characters"}},
            }
            gateways.append(await stack.enter_async_context(many_processes(home, tree)))
        for gateway in gateways:
            await gateway.until_ready(client)
        one, two = gateways
        for name in names:
            status, _ = await post(client, f"{one.url}/sessions", {"session_id": name})
            assert status == 201
            status, _ = await post(client, f"{two.url}/sessions", {"session_id": name})
            assert status == 409
        for name in names:
            for gateway in gateways:
                for _ in range(3):
                    shown = await gateway.get(client, f"/sessions/{name}")
                    assert shown["session_id"] == name
        counts = [(await gateway.get(client, "/sessions"))["count"] for gateway in gateways]
        assert sum(counts) == len(names) and 0 not in counts

        held = []
        for _ in range(8):
            status, reserved = await post(client, f"{one.url}/select_and_reserve", CHAT)
            assert status == 200
            held.append(reserved["request_id"])
        for request_id, expected in [(each, 200) for each in held] + [(each, 404) for each in held]:
            status, _ = await post(client, f"{two.url}/free", {"request_id": request_id})
            assert status == expected

        for gateway, other in (gateways, gateways[::-1]):
            async with client.post(f"{gateway.url}/v1/chat/completions", json=CHAT, headers=CLOSE) as answer:
                assert answer.status == 200
                request_id = answer.headers["x-request-id"]
            for _ in range(3):
                explained = await other.get(client, f"/explain/{request_id}")
                assert explained["request_id"] == request_id
