"""A database that is stopped, or whose disk is full: what `/health` says of it, and what listeners hear."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from radixway.chat.database import ChatDatabase
from support.chat_user import ChatUser, login
from support.faults_serving import Postgres
from support.hand_driven_worker import CHAT, hand_driven_worker
from support.postgres_process import postgres_process
from support.running_gateway import RunningGateway, running_gateway

_MAX_PAGES = 2**30


class FullDisk:
    """SQLite's own limit on the pages of a file."""

    problem = "the disk is full"

    def __init__(self, database: ChatDatabase) -> None:
        self._database = database

    async def begin(self) -> None:
        async with self._database.autocommit_runner() as run:
            ((pages,),) = await run("PRAGMA page_count")
            await run(f"PRAGMA max_page_count = {pages}")

    async def end(self) -> None:
        async with self._database.autocommit_runner() as run:
            await run(f"PRAGMA max_page_count = {_MAX_PAGES}")


class StoppedServer:
    """PostgreSQL, stopped and started."""

    problem = "it cannot be reached"

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres

    async def begin(self) -> None:
        await asyncio.to_thread(self._postgres.stop)

    async def end(self) -> None:
        await asyncio.to_thread(self._postgres.start)


Outage = FullDisk | StoppedServer


@asynccontextmanager
async def _on_postgresql(chat: dict[str, Any]) -> AsyncIterator[tuple[RunningGateway, Outage]]:
    with postgres_process() as server:
        server.psql("CREATE DATABASE away")
        chat["database"] = server.get_uri("away")
        async with running_gateway(chat=chat) as gateway:
            yield gateway, StoppedServer(Postgres(server))


@asynccontextmanager
async def _on_sqlite(chat: dict[str, Any]) -> AsyncIterator[tuple[RunningGateway, Outage]]:
    async with running_gateway(chat=chat) as gateway:
        await login(gateway, "eve")  # opens the chats
        yield gateway, FullDisk(_database(gateway))


@pytest.fixture(
    params=[_on_sqlite, pytest.param(_on_postgresql, marks=pytest.mark.slow)], ids=["full", "stopped"]
)
async def outage(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[tuple[RunningGateway, Outage]]:
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    async with request.param(
        CHAT | {"lease_s": 1.0, "ping_s": 0.2, "limits": {"at_once": 10}}
    ) as gateway_and_outage:
        yield gateway_and_outage


def _problem(told: Any) -> str | None:
    problem: str | None = told["chats"].get("database", {}).get("problem")
    return problem


def _database(gateway: RunningGateway) -> ChatDatabase:
    chats = gateway.gateway.chats
    assert chats is not None and chats.service is not None
    return chats.service.database


async def _until(gateway: RunningGateway, holds: Callable[[Any], bool]) -> Any:
    """`/health`, once that holds of it."""
    async with asyncio.timeout(60):
        while True:
            status, told = await gateway.get("/health")
            assert status == 200  # the gateway lives, and to start it anew would not help
            if holds(told):
                return told
            await asyncio.sleep(0.02)


async def _until_refused(eve: ChatUser) -> Any:
    """What is told of a chat that cannot be made."""
    async with asyncio.timeout(60):
        while True:
            status, told = await eve.call("POST", "/chats", {})
            if status != 200:
                assert status == 503
                return told


@dataclass
class Listener:
    """One stream, line by line."""

    lines: list[str] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self, eve: ChatUser, path: str) -> None:
        async with eve.gateway.client.get(eve.gateway.url + path, headers=eve.headers) as response:
            assert response.status == 200
            async for line in response.content:
                if line.strip():
                    self.lines.append(line.decode().strip())
                    self.changed.set()

    async def until_more(self) -> None:
        """Wait for two lines that are not there yet: one may be on its way."""
        before = len(self.lines)
        async with asyncio.timeout(60):
            while len(self.lines) < before + 2:
                self.changed.clear()
                await self.changed.wait()

    @property
    def last(self) -> dict[str, Any]:
        told: dict[str, Any] = json.loads(self.lines[-1].removeprefix("data: "))
        return told


async def test_health_tells_of_it_and_pending_streams_outlive_it(
    outage: tuple[RunningGateway, Outage], caplog: pytest.LogCaptureFixture
) -> None:
    gateway, fault = outage
    eve = await login(gateway, "eve")
    answers = [await eve.asked() for _ in range(2)]
    told = await _until(gateway, lambda told: told["status"] == "ok")
    assert (told["degraded"], set(told["chats"])) == ([], {"open", "shared"})
    paths = [
        f"{root}/chats/{each['chat_id']}/messages/{each['id']}/events"
        for root, each in zip(("", "/v1"), answers, strict=True)
    ]
    listeners = [Listener() for _ in paths]
    async with asyncio.TaskGroup() as listening:
        streams = [
            listening.create_task(each.listen(eve, path)) for each, path in zip(listeners, paths, strict=True)
        ]
        for listener in listeners:
            await listener.until_more()
        await fault.begin()
        assert await _until_refused(eve) == {"detail": "The database does not answer"}
        told = await _until(gateway, lambda told: _problem(told) == fault.problem)
        assert (told["status"], told["degraded"], told["chats"]["status"]) == (
            "degraded",
            ["chats"],
            "degraded",
        )
        for listener in listeners:
            await listener.until_more()
        await fault.end()
        told = await _until(gateway, lambda told: told["status"] == "ok")
        assert set(told["chats"]) == {"open", "shared"}
        async with hand_driven_worker(gateway, at_once=2) as worker:
            for _ in answers:
                await worker.finish(await worker.work(), "Hi")
            async with asyncio.timeout(60):
                await asyncio.gather(*streams)
    assert [listener.last["message"]["content"] for listener in listeners] == ["Hi", "Hi"]
    assert [record.getMessage() for record in caplog.records if record.exc_info] == []


async def test_what_is_wrong_is_told_without_addresses(outage: tuple[RunningGateway, Outage]) -> None:
    gateway, fault = outage
    eve = await login(gateway, "eve")
    await fault.begin()
    await _until_refused(eve)
    told = json.dumps((await _until(gateway, lambda told: told["status"] == "degraded"))["chats"])
    await fault.end()
    for secret in (
        _database(gateway).url.render_as_string(hide_password=False),
        _database(gateway).url.database,
    ):
        assert str(secret) not in told
    assert "/" not in told
