"""Carrying messages: nothing waits for a peer that is slow or a server that is away."""

import asyncio
import struct

import pytest
import zmq

from radixway.cluster.load_sync.redis_transport import RedisTransport
from radixway.cluster.load_sync.unix_transport import UnixTransport
from radixway.cluster.load_sync.zmq_transport import ZmqTransport
from radixway.core.config import ConfigError


@pytest.fixture
def heard():
    return asyncio.Queue()


async def test_a_peer_that_never_reads_holds_nobody_up(tmp_path, heard):
    endpoint = f"ipc://{tmp_path}/out"
    transport = ZmqTransport(endpoint, [endpoint])
    await transport.start_receiving(heard.put_nowait)
    with zmq.Context() as context, context.socket(zmq.SUB) as stuck:
        stuck.rcvhwm = 1
        stuck.subscribe(b"")
        stuck.connect(endpoint)
        transport.broadcast(b"first")
        while heard.empty():  # its own subscription has come through
            transport.broadcast(b"more")
            await asyncio.sleep(0)
        for _ in range(20_000):
            transport.broadcast(bytes(4096))
    await transport.close_transport()


async def test_without_a_server_only_the_latest_messages_are_kept(free_port, heard):
    transport = RedisTransport(f"redis://127.0.0.1:{free_port}", "channel", 1.0)
    await transport.start_receiving(heard.put_nowait)
    for number in range(10_000):
        transport.broadcast(b"%d" % number)
    assert len(transport._unsent) <= 256 and transport._unsent[-1] == b"9999"
    await transport.close_transport()
    assert heard.empty()


async def test_a_client_library_that_takes_a_cancellation_for_its_own_does_not_keep_it_from_closing(
    free_port, heard
):
    transport = RedisTransport(f"redis://127.0.0.1:{free_port}", "channel", 1.0)
    begun = asyncio.Event()

    async def listen(_):
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.Event().wait()

    transport._listen_loop = listen
    await transport.start_receiving(heard.put_nowait)
    await begun.wait()
    async with asyncio.timeout(10):
        await transport.close_transport()


async def test_messages_come_back_from_the_server_in_order_and_the_last_is_sent_before_the_end(valkey, heard):
    transport = RedisTransport(valkey, "in order", 5.0)
    listener = RedisTransport(valkey, "in order", 5.0)
    await transport.start_receiving(lambda _: None)
    await listener.start_receiving(heard.put_nowait)
    async with asyncio.timeout(10):
        while heard.empty():  # until it listens
            transport.broadcast(b"are you there")
            await asyncio.sleep(0.01)
        for number in range(100):
            transport.broadcast(b"%d" % number)
        await transport.close_transport()
        got = [message async for message in _numbers(heard)]
    assert got == [b"%d" % number for number in range(100)]
    await listener.close_transport()


async def _numbers(heard):
    while (message := await heard.get()) != b"99":
        if message.isdigit():
            yield message
    yield message


async def test_a_server_that_speaks_something_else_is_a_problem_and_no_crash(heard):
    async def babble(_, writer) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()
        babbled.set()

    babbled = asyncio.Event()
    async with await asyncio.start_server(babble, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        transport = RedisTransport(f"redis://127.0.0.1:{port}", "channel", 0.2)
        await transport.start_receiving(heard.put_nowait)
        async with asyncio.timeout(10):
            await babbled.wait()
            while transport.problem is None:
                transport.broadcast(b"x")
                await asyncio.sleep(0.01)
        await transport.close_transport()


async def test_an_address_that_cannot_be_read_is_told_by_its_key(heard):
    with pytest.raises(ConfigError, match=r"scale\.sync\.redis"):
        await RedisTransport("redis://host:port", "channel", 1.0).start_receiving(heard.put_nowait)


async def until_first(transport, heard):
    """Wait until `heard` receives what `transport` sends."""
    async with asyncio.timeout(10):
        while heard.empty():
            transport.broadcast(b"are you there")
            await asyncio.sleep(0)


async def test_processes_are_sent_messages_whole_in_order_and_to_the_last(tmp_path, heard):
    sender, receiver = UnixTransport(tmp_path / "a"), UnixTransport(tmp_path / "b")
    await sender.start_receiving(lambda _: None)
    await receiver.start_receiving(heard.put_nowait)
    receiver.connect_peer(str(tmp_path / "a"))
    await until_first(sender, heard)
    sent = [b"%d" % number for number in range(99)] + [bytes(100_000), b"", b"99"]  # in many reads, or in one
    for message in sent:
        sender.broadcast(message)
    await sender.close_transport()
    async with asyncio.timeout(10):
        received = [await heard.get()]
        while received[-1] != b"99":
            received.append(await heard.get())
    assert [message for message in received if message != b"are you there"] == sent
    receiver.disconnect_peer(str(tmp_path / "a"))
    await receiver.close_transport()


async def test_a_process_that_does_not_read_holds_nobody_up(tmp_path, heard):
    sender, receiver = UnixTransport(tmp_path / "a"), UnixTransport(tmp_path / "b")
    await sender.start_receiving(lambda _: None)
    await receiver.start_receiving(heard.put_nowait)
    receiver.connect_peer(str(tmp_path / "a"))
    receiver.connect_peer(str(tmp_path / "nobody"))
    await until_first(sender, heard)
    _, stuck = await asyncio.open_unix_connection(str(tmp_path / "a"), limit=1)
    stuck.transport.pause_reading()
    await asyncio.sleep(0)
    for number in range(2000):
        sender.broadcast(b"%d " % number + bytes(4096))
        await asyncio.sleep(0)
    waiting = [subscriber.get_write_buffer_size() for subscriber in sender._subscribers]
    assert 0 < max(waiting) < 2**20 + 8192, "what does not fit is dropped"
    async with asyncio.timeout(10):
        while not (await heard.get()).startswith(b"1999 "):
            pass
    stuck.transport.abort()
    await sender.close_transport()
    await receiver.close_transport()
    receiver.connect_peer(str(tmp_path / "a"))  # by a message of the supervisor's that comes late
    receiver.disconnect_peer(str(tmp_path / "a"))


async def test_a_process_that_sends_too_much_is_disconnected(tmp_path, heard):
    gone = asyncio.Event()

    async def send_too_much(reader, writer):
        writer.write(struct.pack("!I", 2**31) + b"x")
        await reader.read()
        gone.set()
        writer.close()

    receiver = UnixTransport(tmp_path / "b")
    async with await asyncio.start_unix_server(send_too_much, str(tmp_path / "a")):
        await receiver.start_receiving(heard.put_nowait)
        receiver.connect_peer(str(tmp_path / "a"))
        async with asyncio.timeout(10):
            await gone.wait()
    await receiver.close_transport()
    assert heard.empty()


async def test_a_lost_connection_between_processes_is_made_again(tmp_path, heard, monkeypatch):
    monkeypatch.setattr("radixway.cluster.load_sync.unix_transport._RECONNECT_S", 0.01)
    receiver = UnixTransport(tmp_path / "b")
    await receiver.start_receiving(heard.put_nowait)
    receiver.connect_peer(str(tmp_path / "a"))  # which does not listen yet
    sender = UnixTransport(tmp_path / "a")
    await sender.start_receiving(lambda _: None)
    await until_first(sender, heard)
    for subscriber in list(sender._subscribers):
        subscriber.abort()
    while not heard.empty():
        heard.get_nowait()
    await until_first(sender, heard)
    receiver.disconnect_peer(str(tmp_path / "a"))
    await sender.close_transport()
    await receiver.close_transport()
