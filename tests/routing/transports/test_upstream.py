"""The connections to workers, one by one."""

import asyncio
import socket

import pytest

from radixway.core.config import WorkerLimitsConfig
from radixway.routing.transports.upstream import UpstreamOrigin
from radixway.routing.transports.upstream_response import ResponseTooLargeError, UpstreamLostError
from support.scripted_worker import Exchange, ScriptedWorker, answer_ok, scripted_worker

REQUEST = b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}"


class Names:
    """Stands for the system's resolver: `worker.test` has the addresses of these workers, of late."""

    def __init__(self, *workers: ScriptedWorker) -> None:
        self.workers = workers
        self.asked = 0

    async def __call__(self, host: str, port: int, **more: int) -> list[tuple]:
        assert host == "worker.test"
        self.asked += 1
        if not self.workers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        addresses = [worker.url.removeprefix("http://").split(":") for worker in self.workers]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (ip, int(port))) for ip, port in addresses]

    def origin(self, max_age_s: float) -> UpstreamOrigin:
        limits = WorkerLimitsConfig()
        return UpstreamOrigin(
            "worker.test", 80, None, idle_s=4, connect_s=5, limits=limits, max_age_s=max_age_s
        )


@pytest.fixture
async def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    found = Names()
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
    return found


def origin_of(url: str, idle_s: float = 4, **limits: int) -> UpstreamOrigin:
    host, port = url.removeprefix("http://").split(":")
    section = WorkerLimitsConfig(**limits)
    return UpstreamOrigin(host, int(port), None, idle_s=idle_s, connect_s=5, limits=section)


async def ask(origin: UpstreamOrigin) -> tuple[int, bytes]:
    answer = await origin.send_request(REQUEST)
    await answer.read_head()
    return answer.status, await answer.read_body(origin.limits.max_answer_bytes)


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
        origin.close_idle()


async def test_a_body_beside_its_request_follows_it_and_comes_whole():
    body = b"word " * 2**20
    async with scripted_worker(answer_ok) as worker:
        origin = origin_of(worker.url)
        head = b"POST /x HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body)
        answer = await origin.write_to_new(head, body)
        await answer.read_head()
        assert answer.status == 200 and worker.requests[0].body == body
        origin.close_idle()


async def test_connections_that_idle_too_long_are_closed_however_many_a_burst_opened():
    async with scripted_worker() as worker:
        origin = origin_of(worker.url, idle_s=0)
        await asyncio.gather(*(ask(origin) for _ in range(20)))
        await ask(origin)
        assert len(origin._idle) <= 1
        origin.close_idle()


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
        origin.close_idle()
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
        with pytest.raises(UpstreamLostError):
            await ask(origin)
        origin.close_idle()


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
        origin.close_idle()


@pytest.mark.parametrize(
    ("head", "endless", "why"),
    [
        (b"HTTP/1.1 200 OK\r\n", b"x-%d: y\r\n", "more than the 20 headers"),
        (b"HTTP/1.1 200 OK\r\nx-long: ", b"x%d" * 64, "more than the 2000 bytes"),
        (b"HTTP/1.1 200 O", b"K%d" * 64, "more than the 2000 bytes"),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1;x=",
            b"y%d" * 64,
            "more than the 2000 bytes",
        ),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n",
            b"x-%d: y\r\n",
            "more than the 20 headers",
        ),
    ],
    ids=["many headers", "a long header", "a long first line", "a chunk's extension", "trailers"],
)
async def test_a_head_without_end_is_not_read_to_its_end(head: bytes, endless: bytes, why: str):
    async def talk(exchange: Exchange) -> None:
        exchange.writer.write(head)
        numbers = (0,) * endless.count(b"%d")
        while True:
            exchange.writer.write(endless % numbers)
            await exchange.writer.drain()

    async with scripted_worker(talk) as worker:
        origin = origin_of(worker.url, max_header_bytes=2000, max_header_count=20)
        async with asyncio.timeout(20):
            with pytest.raises(UpstreamLostError, match=why):
                await ask(origin)
            await worker.hung_up.wait()
        origin.close_idle()


async def test_a_head_within_its_bounds_passes_again_and_again():
    async def reply(exchange: Exchange) -> None:
        head = b"".join(b"x-%d: %b\r\n" % (n, b"y" * 80) for n in range(17))
        exchange.writer.write(b"HTTP/1.1 200 OK\r\n" + head + b"content-length: 3000\r\n\r\n" + b"z" * 3000)
        await exchange.writer.drain()

    async with scripted_worker(reply) as worker:
        origin = origin_of(worker.url, max_header_bytes=2000, max_header_count=20)
        for _ in range(5):
            assert (await ask(origin))[1] == b"z" * 3000
        origin.close_idle()


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_answer_without_end_is_cut(chunked: bool):
    sent = 0

    async def talk(exchange: Exchange) -> None:
        nonlocal sent
        if not chunked:
            exchange.writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        else:
            await exchange.begin_stream()
        while True:
            sent += 1
            if chunked:
                await exchange.chunk(b"x" * 10_000)
            else:
                exchange.writer.write(b"x" * 10_000)
                await exchange.writer.drain()

    async with scripted_worker(talk) as worker:
        origin = origin_of(worker.url, max_answer_bytes=100_000)
        async with asyncio.timeout(20):
            with pytest.raises(
                ResponseTooLargeError, match="more than 100000 bytes .limits.workers.max_answer_bytes"
            ):
                await ask_and_close(origin)
            await worker.hung_up.wait()
        origin.close_idle()


async def test_an_answer_that_promises_too_much_is_not_waited_for():
    async def promise(exchange: Exchange) -> None:
        exchange.writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 100001\r\n\r\n")
        await exchange.until_peer_leaves()

    async with scripted_worker(promise) as worker:
        origin = origin_of(worker.url, max_answer_bytes=100_000)
        with pytest.raises(ResponseTooLargeError):
            await ask_and_close(origin)
        origin.close_idle()


async def ask_and_close(origin: UpstreamOrigin) -> None:
    """As the transport does: whoever wants no more of an answer closes it."""
    answer = await origin.send_request(REQUEST)
    try:
        await answer.read_head()
        await answer.read_body(origin.limits.max_answer_bytes)
    finally:
        answer.cancel_response()


async def test_a_connection_that_is_always_busy_is_not_kept_for_ever(names: Names):
    async with scripted_worker() as old, scripted_worker() as new:
        origin = names.origin(max_age_s=0)
        names.workers = (old,)
        for _ in range(3):
            assert (await ask(origin))[0] == 200
        names.workers = (new,)
        for _ in range(3):
            assert (await ask(origin))[0] == 200
        assert (len(old.requests), len(new.requests), names.asked) == (3, 3, 6)
        assert not origin._idle and not origin.busy
        origin.close_idle()


async def test_a_name_is_looked_up_for_connections_and_not_for_requests(names: Names):
    async with scripted_worker() as worker:
        names.workers = (worker,)
        origin = names.origin(max_age_s=3600)
        for _ in range(10):
            assert (await ask(origin))[0] == 200
        assert (len(worker.requests), names.asked) == (10, 1)
        origin.close_idle()


async def test_an_exchange_outlives_its_connections_time(names: Names):
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def later(exchange: Exchange) -> None:
        asked.set()
        await go_on.wait()
        await answer_ok(exchange)

    async with scripted_worker(later) as worker:
        names.workers = (worker,)
        origin = names.origin(max_age_s=0)
        asking = asyncio.create_task(ask(origin))
        await asked.wait()
        go_on.set()
        assert (await asking)[0] == 200
        async with asyncio.timeout(5):
            await worker.hung_up.wait()
        origin.close_idle()


async def test_the_addresses_of_a_name_take_turns_and_one_that_is_gone_is_passed_over(names: Names):
    async with scripted_worker() as a, scripted_worker() as b, scripted_worker() as c:
        names.workers = (a, b, c)
        origin = names.origin(max_age_s=0)
        for _ in range(6):
            await ask(origin)
        assert [len(each.requests) for each in (a, b, c)] == [2, 2, 2]
        await b.kill()
        for _ in range(6):
            assert (await ask(origin))[0] == 200
        assert len(a.requests) + len(c.requests) == 10
        origin.close_idle()


async def test_a_name_that_is_gone_is_an_error_and_may_come_back(names: Names):
    async with scripted_worker() as worker:
        origin = names.origin(max_age_s=0)
        with pytest.raises(OSError, match="not known"):
            await ask(origin)
        names.workers = (worker,)
        assert (await ask(origin))[0] == 200
        origin.close_idle()


async def test_connections_to_an_address_are_kept_however_old_they_are():
    connections = set()

    async def note(exchange: Exchange) -> None:
        connections.add(exchange.writer)
        await answer_ok(exchange)

    async with scripted_worker(note) as worker:
        host, port = worker.url.removeprefix("http://").split(":")
        limits = WorkerLimitsConfig()
        origin = UpstreamOrigin(host, int(port), None, idle_s=4, connect_s=5, limits=limits, max_age_s=0)
        for _ in range(3):
            await ask(origin)
        assert len(connections) == 1
        origin.close_idle()
