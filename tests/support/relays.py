"""A TCP relay between two engines, which can hold, spoil or end what goes through."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace

from radixway.engine.engine_request import BootstrapRoom

Spoil = Callable[[bytes], bytes]


@dataclass
class Relay:
    """Passes `hold_after` bytes on towards the decode engine, and more once `go` is set."""

    port: int
    hold_after: int | None = None
    spoil: Spoil = bytes
    reached: asyncio.Event = field(default_factory=asyncio.Event)
    """So many bytes have been passed on."""
    go: asyncio.Event = field(default_factory=asyncio.Event)

    def towards(self, room: BootstrapRoom) -> BootstrapRoom:
        """The room by way of this relay."""
        return replace(room, port=self.port)

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = self.hold_after
        while data := await reader.read(2**14 if left is None or self.go.is_set() else left):
            writer.write(self.spoil(data))
            await writer.drain()
            if left is not None and not self.go.is_set():
                left -= len(data)
                if left == 0:
                    self.reached.set()
                    await self.go.wait()
        writer.close()


@asynccontextmanager
async def relay(to_port: int, *, hold_after: int | None = None, spoil: Spoil = bytes) -> AsyncIterator[Relay]:
    """A relay to the prefill engine at `to_port`."""
    connections: set[asyncio.Task[None]] = set()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        connections.add(task)
        there, back = await asyncio.open_connection("127.0.0.1", to_port)
        with suppress(ConnectionError, asyncio.CancelledError):
            await asyncio.gather(made.pass_on(there, writer), _copy(reader, back))
        writer.close()
        back.close()

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    made = Relay(server.sockets[0].getsockname()[1], hold_after, spoil)
    try:
        yield made
    finally:
        server.close()
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(2**14):
        writer.write(data)
        await writer.drain()
    writer.close()


def flip(at: int) -> Spoil:
    """One bit of byte `at` is another."""
    passed = 0

    def spoil(data: bytes) -> bytes:
        nonlocal passed
        place, passed = at - passed, passed + len(data)
        if not 0 <= place < len(data):
            return data
        return data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :]

    return spoil
