"""The connections to workers, one by one."""

import asyncio

import pytest

from radixway.transports.upstream import Lost, Origin
from scripted_worker import Exchange, answer_ok, scripted_worker

REQUEST = b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"


def origin_of(url: str, idle_s: float = 4) -> Origin:
    host, port = url.removeprefix("http://").split(":")
    return Origin(host, int(port), None, idle_s=idle_s, connect_s=5)


async def ask(origin: Origin) -> tuple[int, bytes]:
    answer = await origin.send(REQUEST)
    await answer.read_head()
    return answer.status, await answer.read_all()


async def test_a_connection_is_used_again():
    connections = set()

    async def note(exchange: Exchange) -> None:
        connections.add(exchange.writer)
        await answer_ok(exchange)

    async with scripted_worker(note) as worker:
        origin = origin_of(worker.url)
        for _ in range(5):
            assert (await ask(origin))[0] == 200
        assert len(connections) == 1
        origin.close()


async def test_connections_that_idle_too_long_are_closed_however_many_a_burst_opened():
    async with scripted_worker() as worker:
        origin = origin_of(worker.url, idle_s=0)
        await asyncio.gather(*(ask(origin) for _ in range(20)))
        await ask(origin)
        assert len(origin._idle) <= 1
        origin.close()


async def test_an_exchange_that_ends_after_its_origin_was_closed_closes_its_connection():
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def later(exchange: Exchange) -> None:
        asked.set()
        await go_on.wait()
        await answer_ok(exchange)

    async with scripted_worker(later) as worker:
        origin = origin_of(worker.url)
        asking = asyncio.create_task(ask(origin))
        await asked.wait()
        origin.close()
        go_on.set()
        assert (await asking)[0] == 200
        async with asyncio.timeout(5):
            await worker.hung_up.wait()
        assert not origin._idle


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"nonsense\r\n\r\n",
        b"",
    ],
)
async def test_an_answer_that_stops_short_is_lost_and_not_taken_for_whole(raw):
    async def cut(exchange: Exchange) -> None:
        exchange.writer.write(raw)
        await exchange.writer.drain()
        exchange.writer.close()

    async with scripted_worker(cut) as worker:
        origin = origin_of(worker.url)
        with pytest.raises(Lost):
            await ask(origin)
        origin.close()


async def test_bytes_that_nobody_asked_for_end_the_connection():
    async def chatty(exchange: Exchange) -> None:
        await answer_ok(exchange)
        await answer_ok(exchange)
        await exchange.until_peer_leaves()

    async with scripted_worker(chatty) as worker:
        origin = origin_of(worker.url)
        assert (await ask(origin))[0] == 200
        async with asyncio.timeout(5):
            await worker.hung_up.wait()
        assert (await ask(origin))[0] == 200
        origin.close()
