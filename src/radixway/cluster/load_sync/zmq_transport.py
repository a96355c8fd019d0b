"""Gateway to gateway over ZeroMQ: each publishes at an address of its own and subscribes to the others'."""

import asyncio
import contextlib
import threading
from collections.abc import Sequence

import zmq
import zmq.asyncio

from radixway.cluster.load_sync.transport import OnMessage
from radixway.core.config import ConfigError

_UNSENT_MESSAGES = 1000
"""Messages queued per slow peer; the next full message replaces lost ones."""
_LINGER_MS = 200
_END_S = 2.0
"""Longest wait for the sockets' own threads to end."""
_RECONNECT_MS = (100, 5000)
_MAX_MESSAGE_BYTES = 4 * 2**20
"""A peer that sends a longer message is disconnected."""


class ZmqTransport:
    """A PUB socket that is bound, and a SUB socket connected to every peer, there yet or not."""

    name = "zmq"
    problem = None
    """ZeroMQ does not report who is connected; `/health` lists gateways that sent messages."""

    def __init__(self, bind: str, peers: Sequence[str]) -> None:
        self._bind = bind
        self._peers = peers
        self._context: zmq.Context[zmq.Socket[bytes]]
        self._out: zmq.Socket[bytes]
        self._in: zmq.asyncio.Socket
        self._reading: asyncio.Task[None] | None = None

    @property
    def endpoint(self) -> str:
        """Address that it publishes at, with the actual port; after `start_receiving`."""
        return self._out.getsockopt_string(zmq.LAST_ENDPOINT)

    async def start_receiving(self, hear: OnMessage) -> None:
        self._make_sockets()
        try:
            self._out.bind(self._bind)
            self._in.subscribe(b"")
            for peer in self._peers:
                self.connect_peer(peer)
        except zmq.ZMQError as error:
            await self.close_transport()
            raise ConfigError(f"scale.sync.bind: cannot listen on {self._bind}: {error.strerror}") from None
        except ConfigError:
            await self.close_transport()
            raise
        self._reading = asyncio.get_running_loop().create_task(
            self._receive_loop(hear), name="load sync over zmq"
        )

    def connect_peer(self, peer: str) -> None:
        """Listen to one more gateway. Raises ConfigError."""
        try:
            self._in.connect(peer)
        except zmq.ZMQError as error:
            raise ConfigError(f"scale.sync.peers: cannot connect to {peer}: {error.strerror}") from None

    def disconnect_peer(self, peer: str) -> None:
        """Listen to a gateway no more that was connected to."""
        if not self._in.closed:  # else the gateway is stopping, and so is its peer
            self._in.disconnect(peer)

    def broadcast(self, message: bytes) -> None:
        self._out.send(message, zmq.NOBLOCK)  # PUB drops what a slow peer cannot take

    async def close_transport(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        self._in.close(linger=0)
        self._out.close(linger=_LINGER_MS)
        await self._end_context()

    async def _end_context(self) -> None:
        """Wait until messages are sent, for at most `_END_S`: libzmq has been seen to wait for ever here, and
        a gateway that stops must not. The thread is a daemon, as threads of an executor are waited for.
        """
        loop, ended = asyncio.get_running_loop(), asyncio.Event()

        def end() -> None:
            self._context.term()
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(ended.set)

        threading.Thread(target=end, name="radixway-zmq-end", daemon=True).start()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await ended.wait()

    def _make_sockets(self) -> None:
        self._context = zmq.Context()
        self._out = self._context.socket(zmq.PUB)
        self._in = zmq.asyncio.Socket(self._context, zmq.SUB)
        for socket in (self._out, self._in):
            socket.set_hwm(_UNSENT_MESSAGES)
            socket.ipv6 = any("[" in endpoint for endpoint in (self._bind, *self._peers))
        self._in.reconnect_ivl, self._in.reconnect_ivl_max = _RECONNECT_MS
        self._in.maxmsgsize = _MAX_MESSAGE_BYTES

    async def _receive_loop(self, hear: OnMessage) -> None:
        while True:
            frames = await self._in.recv_multipart()
            hear(frames[-1])
