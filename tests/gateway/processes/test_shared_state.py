"""What must be right over all processes: limits, reservations, sessions, and what there is once."""

from __future__ import annotations

import asyncio
import json

import pytest

from gateway.processes.conftest import PATIENCE_S, many_processes
from support.scripted_worker import Exchange, scripted_worker

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
CLOSE = {"connection": "close"}


async def post(client, url, body, **headers):
    """Status and answer, over a connection of its own."""
    async with client.post(url, json=body, headers=CLOSE | headers) as answer:
        return answer.status, await answer.json(content_type=None)


async def test_limits_hold_over_all_processes(tmp_path, client):
    let_go = asyncio.Event()

    async def hold(exchange: Exchange) -> None:
        await let_go.wait()
        usage = {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
        await exchange.reply(200, b'{"choices": [], "usage": %s}' % str(usage).replace("'", '"').encode())

    tenants = {"default": {"rates": {"concurrent": 5, "requests_per_minute": 8}}}
    async with scripted_worker(hold, models=("m",)) as worker:
        tree = {"workers": [{"url": worker.url}], "tenants": tenants}
        async with many_processes(tmp_path, tree) as gateway:
            await gateway.until_ready(client)
            chat = f"{gateway.url}/v1/chat/completions"
            asking = [asyncio.create_task(post(client, chat, CHAT)) for _ in range(16)]
            async with asyncio.timeout(PATIENCE_S):
                while sum(task.done() for task in asking) < 11:
                    await asyncio.wait(asking, return_when=asyncio.FIRST_COMPLETED, timeout=0.05)
            refused = [await task for task in asking if task.done()]
            assert {status for status, _ in refused} == {429}
            assert {body["error"]["code"] for _, body in refused} == {"concurrent"}
            let_go.set()
            told = await asyncio.gather(*asking)
            assert [status for status, _ in told].count(200) == 5

            again = [await post(client, chat, CHAT) for _ in range(5)]
            assert [status for status, _ in again] == [200] * 3 + [429] * 2
            assert again[-1][1]["error"]["code"] == "requests_per_minute"
            for _ in range(4):
                told = await gateway.get(client, "/usage", params={"tenant": "default"})
                assert [row["total_tokens"] for row in told["usage"]] == [8 * 5]
                used = {limit["name"]: limit["used"] for limit in told["limits"]}
                assert used == {"concurrent": 0, "requests_per_minute": 8}


@pytest.mark.slow
async def test_a_place_reserved_at_one_is_freed_at_another(tmp_path, client):
    async with scripted_worker(models=("m",)) as worker:
        async with many_processes(tmp_path, {"workers": [{"url": worker.url}]}) as gateway:
            await gateway.until_ready(client)
            held = []
            for _ in range(12):
                status, told = await post(client, f"{gateway.url}/select_and_reserve", CHAT)
                assert status == 200
                held.append(told["request_id"])
            await gateway.until(client, "/workers", lambda told: told["workers"][0]["in_flight"] == 12)
            for path, expected in (("/prefill_complete", 200), ("/free", 200), ("/free", 404)):
                for request_id in held:
                    status, _ = await post(client, gateway.url + path, {"request_id": request_id})
                    assert status == expected, path
            for _ in range(4):
                told = await gateway.get(client, "/workers")
                assert told["workers"][0]["in_flight"] == 0


@pytest.mark.slow
async def test_a_session_is_the_same_at_each(tmp_path, client):
    names = [f"agent-{number}" for number in range(8)]
    tree = {"trajectories": {"sessions": {"path": str(tmp_path / "sessions.sqlite")}}}
    async with many_processes(tmp_path, tree) as gateway:
        for name in names:
            status, made = await post(client, f"{gateway.url}/sessions", {"session_id": name})
            assert status == 201
            assert made["base_url"] == f"{gateway.url}/sessions/{name}/v1"
        for name in names:
            status, _ = await post(client, f"{gateway.url}/sessions", {"session_id": name})
            assert status == 409
            shown = await gateway.get(client, f"/sessions/{name}")
            assert shown["session_id"] == name
        for _ in range(4):
            told = await gateway.get(client, "/sessions")
            assert [session["session_id"] for session in told["sessions"]] == names
    # As many as there are: each process takes up what is its own of the file.
    async with many_processes(tmp_path, tree, processes=3) as gateway:
        await gateway.children(client, 3)
        told = await gateway.get(client, "/sessions")
        assert [session["session_id"] for session in told["sessions"]] == names
        for name in names:
            assert (await gateway.get(client, f"/sessions/{name}"))["state"] == "open"


@pytest.mark.slow
async def test_chats_are_one_whoever_is_asked(tmp_path, client):
    async with many_processes(tmp_path, {"chat": {"enabled": True}}) as gateway:
        status, made = await post(client, f"{gateway.url}/v1/conversations", {})
        assert status == 200, made
        for _ in range(6):
            told = await gateway.get(client, f"/v1/conversations/{made['id']}")
            assert told["id"] == made["id"]


@pytest.mark.slow
async def test_a_weight_version_that_is_expected_is_expected_everywhere(tmp_path, client):
    async with scripted_worker(models=("m",), weight_version="6") as worker:
        async with many_processes(tmp_path, {"workers": [{"url": worker.url}]}) as gateway:
            await gateway.until_ready(client)
            for version, state in (("7", "stale"), ("6", "ready")):
                status, _ = await post(
                    client, f"{gateway.url}/expect_weight_version", {"weight_version": version}
                )
                assert status == 200
                for _ in range(8):
                    told = await gateway.get(client, "/list_workers")
                    assert told["workers"][0]["state"] == state
                    assert (await gateway.get(client, "/weight_version"))["expected"] == version


@pytest.mark.slow
async def test_a_follower_sees_the_traffic_of_all(tmp_path, client):
    async def answer(exchange: Exchange) -> None:
        await exchange.reply(200, b'{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 1}}')

    async with scripted_worker(answer, models=("m",)) as worker:
        async with many_processes(tmp_path, {"workers": [{"url": worker.url}]}) as gateway:
            await gateway.until_ready(client)
            async with client.get(f"{gateway.url}/traffic") as feed:
                assert feed.status == 200
                chat = {"model": "m", "messages": [{"role": "user", "content": "the same words " * 200}]}
                lines: list[dict] = []

                async def follow() -> None:
                    async for line in feed.content:
                        lines.append(json.loads(line))

                following = asyncio.create_task(follow())
                asked = 0
                async with asyncio.timeout(PATIENCE_S):
                    while len(lines) < 16:
                        status, _ = await post(client, f"{gateway.url}/v1/chat/completions", chat)
                        asked += status == 200
                        if asked >= 24:  # a sibling's feed may begin with a later one
                            await asyncio.wait([following], timeout=0.05)
                following.cancel()
            # A block has the same name whichever process its request came to.
            assert len({line["hash_ids"][0] for line in lines}) == 1
            assert max(line["timestamp"] for line in lines) < 1e3 * PATIENCE_S


@pytest.mark.slow
async def test_samples_of_all_processes_come_as_lines(tmp_path, client):
    async with many_processes(tmp_path, {}) as gateway:
        async with client.get(f"{gateway.url}/samples", params={"format": "jsonl"}) as answer:
            assert (answer.status, await answer.read()) == (200, b"")
        async with client.get(f"{gateway.url}/samples", params={"format": "arrow"}) as answer:
            assert answer.status == 400 and "jsonl" in (await answer.json())["error"]["message"]


async def test_an_erasure_reaches_all_processes(tmp_path, client):
    async with scripted_worker(models=("m",)) as worker:
        async with many_processes(tmp_path, {"workers": [{"url": worker.url}]}) as gateway:
            await gateway.until_ready(client)
            for _ in range(16):
                assert (await post(client, f"{gateway.url}/v1/chat/completions", CHAT))[0] == 200
            assert (await gateway.get(client, "/requests"))["kept"] == 16
            status, told = await post(
                client, f"{gateway.url}/admin/erase", {"tenant": "default", "all": True}
            )
            assert (status, told["complete"]) == (200, True)
            rooms = told["rooms"]
            assert rooms["journals"]["entries"] < 16 <= sum(room["entries"] for room in rooms.values())
            assert (await gateway.get(client, "/requests"))["kept"] == 0


@pytest.mark.slow
async def test_a_registration_that_ends_ends_everywhere(tmp_path, client):
    async with scripted_worker(models=("m",)) as worker:
        async with many_processes(tmp_path, {}) as gateway:
            await gateway.children(client)
            registration = {"url": worker.url, "ttl_s": 1}
            assert (await post(client, f"{gateway.url}/workers", registration))[0] == 200
            await gateway.until_ready(client)
            await gateway.until_ready(client, workers=0)
            for _ in range(8):
                assert (await gateway.get(client, "/list_workers"))["workers"] == []
