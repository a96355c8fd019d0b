"""Chats over several processes: asked for at one, heard at another, worked on through a third connection."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator

import aiohttp
import pytest
import pytest_asyncio

from gateway.processes.conftest import PATIENCE_S, ManyProcesses, many_processes
from support.hand_driven_worker import CHAT, HEADERS, HandDrivenWorker, worker_info
from support.scripted_worker import Exchange, scripted_worker

pytestmark = pytest.mark.asyncio(loop_scope="module")
SOCKET = "/console/_nicegui_ws/socket.io/?EIO=4&transport=websocket&client_id=x"
EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "%b "}}]}\n\n'
CLOSE = {"connection": "close"}


class SteppedWorker:
    """Sends `say` a word at a time to the stream that it answers, and ends it with None."""

    def __init__(self) -> None:
        self.words: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def __call__(self, exchange: Exchange) -> None:
        await exchange.begin_stream()
        while (word := await self.words.get()) is not None:
            await exchange.chunk(EVENT % word)
        await exchange.chunk(b"data: [DONE]\n\n")
        await exchange.end_stream()


class ChattingUser:
    """Somebody who chats; each call is a connection of its own, whose process the kernel chooses."""

    def __init__(self, gateway: ManyProcesses, client: aiohttp.ClientSession, token: str) -> None:
        self.gateway = gateway
        self.client = client
        self.headers = {"authorization": f"Bearer {token}"}

    async def call(self, method: str, path: str, body: object = None) -> dict:
        async with self.client.request(
            method, self.gateway.url + path, json=body, headers=self.headers | CLOSE
        ) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def ask(self, model: str) -> dict:
        """The answer that was asked for in a new chat."""
        chat = await self.call("POST", "/chats", {})
        path = f"/chats/{chat['id']}"
        said = await self.call("POST", f"{path}/prompter_message", {"parent_id": None, "content": "hello"})
        asked = {"parent_id": said["id"], "model_config_name": model}
        return await self.call("POST", f"{path}/assistant_message", asked)

    async def follow(self, answer: dict, seen: list[dict], last_id: str | None = None) -> None:
        """Add the events of `answer` to `seen` as they come, over a connection of their own."""
        path = f"/v1/chats/{answer['chat_id']}/messages/{answer['id']}/events"
        headers = self.headers | CLOSE | ({} if last_id is None else {"last-event-id": last_id})
        event_id = None
        async with self.client.get(self.gateway.url + path, headers=headers) as events:
            assert events.status == 200, await events.text()
            async for line in events.content:
                if line.startswith(b"id: "):
                    event_id = line[4:].strip().decode()
                if line.startswith(b"data: "):
                    event = json.loads(line[6:])
                    if event["event_type"] != "pending":
                        seen.append(event | {"at": event_id, "by": events.headers.get("x-radixway-gateway")})


async def until_words(followed: list[list[dict]], text: str) -> None:
    """Wait until all followers have been sent `text`, and no more."""
    async with asyncio.timeout(PATIENCE_S):
        while not all(words(seen) == text for seen in followed):  # noqa: ASYNC110  # events of other tasks
            await asyncio.sleep(0.005)


def words(events: list[dict]) -> str:
    return "".join(event["text"] for event in events if event["event_type"] == "token")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def worker():
    behaviour = SteppedWorker()
    async with scripted_worker(behaviour, models=("pushed",)) as worker:
        behaviour.url = worker.url
        yield behaviour


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def gateway(worker, tmp_path_factory) -> AsyncIterator[ManyProcesses]:
    tree = {
        "chat": CHAT | {"enabled": True, "limits": {"at_once": 100}},
        "console": {"enabled": True, "preload": False},
        "workers": [{"url": worker.url, "models": ["pushed"]}],
    }
    async with many_processes(tmp_path_factory.mktemp("chats"), tree) as gateway:
        yield gateway


@pytest_asyncio.fixture(loop_scope="module")
async def client() -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
    async with aiohttp.ClientSession(timeout=timeout) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def user(gateway, client) -> ChattingUser:
    told = await gateway.get(client, "/auth/callback/debug?code=eve")
    return ChattingUser(gateway, client, told["access_token"]["access_token"])


async def test_an_answer_streams_to_followers_at_each_process(user, worker):
    answer = await user.ask("pushed")
    followed: list[list[dict]] = [[] for _ in range(8)]
    following = [asyncio.create_task(user.follow(answer, seen)) for seen in followed]
    text = ""
    for word in (b"one", b"two", b"three"):
        worker.words.put_nowait(word)
        text += word.decode() + " "
        # Every one hears each word while the answer goes on: none waits for its end.
        await until_words(followed, text)
    # One that has lost its connection goes on at whichever process, after what it has heard.
    first = next(event for event in followed[0] if event["event_type"] == "token")
    again: list[list[dict]] = [[] for _ in range(8)]
    following += [asyncio.create_task(user.follow(answer, seen, first["at"])) for seen in again]
    await until_words(again, "two three ")
    worker.words.put_nowait(b"four")
    worker.words.put_nowait(None)
    await asyncio.gather(*following)
    assert {words(seen) for seen in followed} == {"one two three four "}
    assert {words(seen) for seen in again} == {"two three four "}
    by = {event["by"] for seen in (*followed, *again) for event in seen}
    assert by == {None, "http://process-0"}, "both processes were asked"


async def test_pull_workers_serve_chats_whichever_process_they_connect_to(gateway, client, user):
    async def pull() -> HandDrivenWorker:
        socket = await client.ws_connect(f"{gateway.url}/workers/work", headers=HEADERS)
        worker = HandDrivenWorker(socket)
        await worker.send(worker_info())
        return worker

    workers = [await pull() for _ in range(6)]
    answers = [await user.ask("m") for _ in workers]
    followed: list[list[dict]] = [[] for _ in answers]
    following = [
        asyncio.create_task(user.follow(answer, seen)) for answer, seen in zip(answers, followed, strict=True)
    ]
    for number, worker in enumerate(workers):
        work = await worker.work()
        await worker.say(work, "by ", str(number))
        await worker.finish(work, f"by {number}")
    await asyncio.gather(*following)
    assert {words(seen) for seen in followed} == {f"by {number}" for number in range(len(workers))}
    for worker in workers:
        await worker.socket.close()


@pytest.mark.slow
async def test_the_consoles_socket_opens_at_each_process(gateway, client):
    by = set()
    async with client.get(f"{gateway.url}/console/favicon.ico") as answer:
        assert answer.status == 200  # the console's process runs
    async with asyncio.timeout(PATIENCE_S):
        while len(by) < 2:
            headers = CLOSE | {"accept": "text/html"}
            async with client.get(f"{gateway.url}/console/", headers=headers) as page:
                assert page.status == 200
                by.add(page.headers.get("x-radixway-gateway"))
    for _ in range(8):
        async with client.ws_connect(gateway.url + SOCKET, origin=gateway.url) as socket:
            assert (await socket.receive_str())[0] == "0"  # the handshake of engine.io


@pytest.mark.slow
async def test_a_roll_under_streams_loses_no_word(gateway, client, user, worker):
    before = await gateway.children(client)
    answer = await user.ask("pushed")
    seen: list[dict] = []
    following = asyncio.create_task(user.follow(answer, seen))
    worker.words.put_nowait(b"one")
    await until_words([seen], "one ")
    gateway.signal(signal.SIGHUP)
    async with asyncio.timeout(PATIENCE_S):
        while set((await gateway.children(client)).values()) & set(before.values()):
            pass
    worker.words.put_nowait(b"two")
    worker.words.put_nowait(None)
    await following
    assert words(seen) == "one two "
    assert (await user.call("GET", f"/chats/{answer['chat_id']}/messages/{answer['id']}"))[
        "state"
    ] == "complete"


@pytest.mark.slow
async def test_chats_go_on_when_the_first_process_has_died(gateway, client, user, worker):
    answer = await user.ask("pushed")
    seen: list[dict] = []
    following = asyncio.create_task(user.follow(answer, seen))
    worker.words.put_nowait(b"one")
    await until_words([seen], "one ")
    os.kill((await gateway.children(client))[0], signal.SIGKILL)
    worker.words.put_nowait(None)
    await asyncio.gather(following, return_exceptions=True)
    chats = await user.call("GET", "/chats")
    assert answer["chat_id"] in [chat["id"] for chat in chats["chats"]]
