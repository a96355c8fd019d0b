"""Several processes at one address, over real sockets: spread, shared, killed, rolled, ended."""

from __future__ import annotations

import asyncio
import json
import os
import signal

import aiohttp
import pytest

from gateway.processes.conftest import PATIENCE_S, many_processes
from support.scripted_worker import Exchange, scripted_worker

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


class HeldWorker:
    """Answers at once, or, while `hold` is set, when told to."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.waiting = 0

    async def __call__(self, exchange: Exchange) -> None:
        self.waiting += 1
        try:
            await self.may_answer.wait()
            if exchange.body and exchange.json().get("stream"):
                await exchange.begin_stream()
                await exchange.chunk(b'data: {"choices": [{"index": 0, "delta": {"content": "hi"}}]}\n\n')
                await exchange.chunk(b"data: [DONE]\n\n")
                await exchange.end_stream()
            else:
                await exchange.reply(200, b'{"choices": [{"index": 0, "message": {"content": "hi"}}]}')
        finally:
            self.waiting -= 1


async def ask(client: aiohttp.ClientSession, url: str, **more) -> tuple[int, str]:
    """Status and id of a request over a connection of its own."""
    async with client.post(
        url + "/v1/chat/completions", json=CHAT | more, headers={"connection": "close"}
    ) as answer:
        await answer.read()
        return answer.status, answer.headers["x-request-id"]


async def count_requests(client: aiohttp.ClientSession, url: str) -> float:
    """What the counter says that a scrape sees, at whichever child."""
    async with client.get(url + "/metrics/prometheus", headers={"connection": "close"}) as page:
        lines = (await page.text()).splitlines()
    return sum(float(line.split(" ")[1]) for line in lines if line.startswith("radixway_requests_total{"))


async def test_two_processes_answer_as_one(tmp_path, client):
    behaviour = HeldWorker()
    async with scripted_worker(behaviour, models=("m",)) as worker:
        async with many_processes(tmp_path, {"workers": [{"url": worker.url}]}) as gateway:
            children = await gateway.children(client)
            assert len(set(children.values())) == 2
            await gateway.until_ready(client)
            asked = [await ask(client, gateway.url) for _ in range(24)]
            assert {status for status, _ in asked} == {200}
            ids = [request_id for _, request_id in asked]

            # Whichever is asked knows every request, and they are told newest first.
            for _ in range(4):
                told = await gateway.get(client, "/requests", params={"limit": "100"})
                ended = [row["ended_at"] for row in told["requests"]]
                assert [row["id"] for row in told["requests"]] == ids[::-1] and told["next"] is None
                assert ended == sorted(ended, reverse=True) and told["kept"] == 24
            for request_id in ids:
                explained = await gateway.get(client, f"/explain/{request_id}")
                assert explained["request_id"] == request_id

            # Page by page they are the same, none twice and none left out.
            paged, cursor = [], {}
            while True:
                page = await gateway.get(client, "/requests", params={"limit": "5"} | cursor)
                paged += [row["id"] for row in page["requests"]]
                assert len(page["cursors"]) == len(page["requests"])
                if page["next"] is None:
                    break
                cursor = {"cursor": page["next"]}
            assert paged == [row["id"] for row in told["requests"]]

            # Loads and counters are those of both.
            behaviour.may_answer.clear()
            held = [asyncio.create_task(ask(client, gateway.url)) for _ in range(12)]
            for _ in range(4):
                told = await gateway.until(
                    client, "/workers", lambda told: told["workers"][0]["in_flight"] == 12
                )
                assert told["workers"][0]["in_flight_elsewhere"] == 0
            assert (await gateway.get(client, "/metrics"))["router"]["total_in_flight"] == 12
            behaviour.may_answer.set()
            assert {status for status, _ in await asyncio.gather(*held)} == {200}
            await gateway.until(client, "/workers", lambda told: told["workers"][0]["in_flight"] == 0)
            async with asyncio.timeout(PATIENCE_S):
                while await count_requests(client, gateway.url) != 36:
                    pass  # a child tells the others its counts once a second


@pytest.mark.slow
async def test_a_worker_that_one_process_is_told_of_serves_in_both(tmp_path, client):
    behaviour = HeldWorker()
    async with scripted_worker(behaviour, models=("m",)) as worker:
        async with many_processes(tmp_path, {}) as gateway:
            children = await gateway.children(client)
            for path, states in (
                ("/add_worker", ["ready"]),
                ("/drain_worker", ["draining"]),
                ("/add_worker", ["ready"]),
                ("/remove_worker", []),
                ("/workers", ["ready"]),
            ):
                async with client.post(gateway.url + path, json={"url": worker.url}) as answer:
                    assert answer.status == 200, await answer.text()
                for told in [await gateway.get(client, "/list_workers") for _ in range(8)]:
                    assert [each["state"] for each in told["workers"]] == states, path
            assert [(await ask(client, gateway.url))[0] for _ in range(8)] == [200] * 8

            # A child that is started again asks its sibling, whichever of them it is.
            for slot in (1, 0):
                os.kill(children[slot], signal.SIGKILL)
                pid = children[slot]
                while children[slot] == pid:
                    children = await gateway.children(client)
                told = [await gateway.get(client, "/list_workers") for _ in range(8)]
                assert all(each["workers"][0]["sources"] == ["registered"] for each in told)
                assert [(await ask(client, gateway.url))[0] for _ in range(8)] == [200] * 8


@pytest.mark.slow
async def test_killing_a_process_costs_its_open_connections_alone(tmp_path):
    behaviour = HeldWorker()
    connector = aiohttp.TCPConnector(limit=0)
    async with (
        aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=PATIENCE_S)) as client,
        scripted_worker(behaviour, models=("m",)) as worker,
        many_processes(tmp_path, {"workers": [{"url": worker.url}]}) as gateway,
    ):
        children = await gateway.children(client)
        outcomes: list[tuple[str, str]] = []
        over = asyncio.Event()

        async def keep_asking() -> None:
            """New connections, one after the other."""
            while not over.is_set():
                reader = None
                try:
                    reader, writer = await asyncio.open_connection(
                        "127.0.0.1", int(gateway.url.rpartition(":")[2])
                    )
                    body = json.dumps(CHAT).encode()
                    writer.write(
                        b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
                        b"connection: close\r\ncontent-length: %d\r\n\r\n" % len(body) + body
                    )
                    head = await reader.readuntil(b"\r\n\r\n")
                    outcomes.append(("answer", head.split(b" ")[1].decode()))
                    writer.close()
                except (OSError, asyncio.IncompleteReadError) as error:
                    outcomes.append(("broken" if reader is not None else "refused", type(error).__name__))

        asking = [asyncio.create_task(keep_asking()) for _ in range(8)]
        for _ in range(3):
            for slot in (0, 1):
                before = len(outcomes)
                while len(outcomes) < before + 40:
                    await gateway.get(client, "/health")
                os.kill(children[slot], signal.SIGKILL)
                dead = children[slot]
                while children[slot] == dead:
                    children = await gateway.children(client)
        over.set()
        await asyncio.gather(*asking)

        # No connection is refused, and each kill breaks at most those that were open then.
        assert not [kind for kind, _ in outcomes if kind == "refused"]
        broken = [kind for kind, _ in outcomes if kind == "broken"]
        assert len(broken) <= 6 * len(asking)
        assert {status for kind, status in outcomes if kind == "answer"} == {"200"}
        assert sum(kind == "answer" for kind, _ in outcomes) >= 240

        # What the dead had in flight is forgotten.
        await gateway.until(client, "/workers", lambda told: told["workers"][0]["in_flight"] == 0)
        await gateway.until(client, "/workers", lambda told: told["workers"][0]["in_flight_elsewhere"] == 0)
        gateway.log[:] = [line for line in gateway.log if '"level":"error"' not in line]


@pytest.mark.slow
async def test_a_roll_loses_no_request_and_takes_up_the_new_configuration(tmp_path, client):
    behaviour = HeldWorker()
    async with (
        scripted_worker(behaviour, models=("m",)) as worker,
        scripted_worker(behaviour, models=("n",)) as another,
    ):
        tree = {"workers": [{"url": worker.url}]}
        async with many_processes(tmp_path, tree) as gateway:
            children = await gateway.children(client)
            await gateway.until_ready(client)
            over = asyncio.Event()
            statuses: list[int] = []

            async def keep_asking() -> None:
                while not over.is_set():
                    statuses.append((await ask(client, gateway.url))[0])

            asking = [asyncio.create_task(keep_asking()) for _ in range(4)]
            written = json.loads(gateway.config.read_text())
            gateway.config.write_text(json.dumps(written | {"routing": {"no_such_key": 1}}))
            gateway.signal(signal.SIGHUP)
            assert "no_such_key" in await gateway.until_logged("the configuration is not reloaded")
            assert await gateway.children(client) == children

            written["workers"].append({"url": another.url})
            gateway.config.write_text(json.dumps(written))
            gateway.signal(signal.SIGHUP)
            await gateway.until_logged("processes have the configuration that was read again")
            over.set()
            await asyncio.gather(*asking)
            assert set(statuses) == {200}
            async with asyncio.timeout(PATIENCE_S):
                while set((await gateway.children(client)).values()) & set(children.values()):
                    pass  # the last of the old ones is about to close its listener
            for told in [await gateway.get(client, "/list_workers") for _ in range(8)]:
                assert len(told["workers"]) == 2
            assert await ask(client, gateway.url, model="n")
            gateway.log[:] = [line for line in gateway.log if "no_such_key" not in line]


@pytest.mark.slow
async def test_sigterm_lets_requests_finish(tmp_path, client):
    behaviour = HeldWorker()
    async with scripted_worker(behaviour, models=("m",)) as worker:
        async with many_processes(tmp_path, {"workers": [{"url": worker.url}]}) as gateway:
            await gateway.until_ready(client)
            behaviour.may_answer.clear()
            held = [asyncio.create_task(ask(client, gateway.url, stream=True)) for _ in range(12)]
            while behaviour.waiting < 12:
                await gateway.get(client, "/health")
            gateway.signal(signal.SIGTERM)
            with pytest.raises(aiohttp.ClientConnectorError):
                async with asyncio.timeout(PATIENCE_S):
                    while True:
                        await client.get(gateway.url + "/health", headers={"connection": "close"})
            behaviour.may_answer.set()
            assert {status for status, _ in await asyncio.gather(*held)} == {200}
            assert await asyncio.wait_for(gateway.process.wait(), PATIENCE_S) == 0


async def test_a_start_failure_fails_the_command_with_its_reason(tmp_path):
    tree = {"trajectories": {"sessions": {"path": str(tmp_path)}}}  # a directory is no file
    with pytest.raises(AssertionError, match=r"trajectories\.sessions\.path"):
        async with many_processes(tmp_path, tree):
            pass


@pytest.mark.slow
async def test_a_child_that_cannot_be_started_again_ends_the_command_with_its_reason(tmp_path, client):
    archive = tmp_path / "sessions.sqlite"
    tree = {"trajectories": {"sessions": {"path": str(archive)}}}
    async with many_processes(tmp_path, tree) as gateway:
        children = await gateway.children(client)
        for file in tmp_path.glob("sessions.sqlite*"):
            file.unlink()
        archive.mkdir()
        os.kill(children[1], signal.SIGKILL)
        for _ in range(8):  # its sibling answers all meanwhile
            assert (await gateway.get(client, "/health"))["processes"]["pid"] == children[0]
        assert await asyncio.wait_for(gateway.process.wait(), PATIENCE_S) == 2
        assert sum("could not be started again" in line for line in gateway.log) == 5
        assert "trajectories.sessions.path" in gateway.log[-1]
        gateway.log.clear()


async def test_what_only_one_process_can_listen_at_is_refused(tmp_path):
    tree = {"workers": [{"url": "http://127.0.0.1:1", "kv_events": {"endpoint": "tcp://*:5557"}}]}
    with pytest.raises(AssertionError, match=r"workers\.0\.kv_events\.endpoint"):
        async with many_processes(tmp_path, tree):
            pass
