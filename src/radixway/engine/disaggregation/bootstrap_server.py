"""The server that decode engines fetch KV from: over TCP, or over a Unix socket on the same machine."""

import errno
import logging
import selectors
import socket
import threading
import uuid
from collections.abc import Callable
from typing import TypeAlias

import torch

from radixway.engine.disaggregation.kv_chunks import (
    LOCAL_SOCKET_PREFIX,
    MAX_CHUNK_BYTES,
    ChunkWriter,
    SharedMemoryChunkWriter,
    StreamChunkWriter,
    is_available,
    is_same_user,
    receive_segment,
)
from radixway.engine.disaggregation.transfer_channel import (
    PROTOCOL,
    KVTransferError,
    TransferChannel,
    TransferGreeting,
)
from radixway.engine.errors import EngineError

ConnectionHandler: TypeAlias = Callable[[TransferChannel, ChunkWriter], None]
"""Answers one decode engine: reads its question from the channel, writes KV with the writer."""

log = logging.getLogger(__name__)

_POLL_S = 0.5
"""Seconds between two calls of `on_poll`."""

_BACKOFF_S = 0.1

_MAX_CONNECTIONS = 512


class BootstrapServer:
    """Accepts decode engines in one thread and serves each connection in another."""

    def __init__(
        self,
        host: str,
        port: int,
        serve: ConnectionHandler,
        *,
        local: bool,
        timeout_s: float,
        on_poll: Callable[[], None],
    ) -> None:
        """Listen on `host` and `port` (0: any); with `local` also on a Unix socket for shared memory.

        `serve` answers one connection, in a thread of its own; `timeout_s` is for each frame. `on_poll` is
        called every half second. Raises EngineError if the address cannot be listened on.
        """
        self._serve = serve
        self._timeout_s = timeout_s
        self._on_poll = on_poll
        self._closing = False
        self._stopped = threading.Event()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        try:
            self._tcp = socket.create_server((host, port), family=family, backlog=128)
        except OSError as error:
            where = f"{host}:{port}, where decode engines would come for KV"
            what = f"cannot listen on {where}: {error.strerror}"
            raise EngineError(f"{what}; give another disaggregation_bootstrap_port") from None
        self.port: int = self._tcp.getsockname()[1]
        self._local_name = ""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._tcp, selectors.EVENT_READ, False)
        if local and is_available():
            self._local_name = f"{LOCAL_SOCKET_PREFIX}{uuid.uuid4().hex}"
            self._unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._unix.bind(f"\0{self._local_name}")
            self._unix.listen(128)
            self._selector.register(self._unix, selectors.EVENT_READ, True)
        self._channels: set[TransferChannel] = set()
        self._threads: set[threading.Thread] = set()
        self._accepting = threading.Thread(target=self._accept_loop, name="radixway-kv-listener", daemon=True)
        self._accepting.start()

    def shutdown(self) -> None:
        """End the connections there are, and wait for their threads."""
        self._closing = True
        self._stopped.set()
        self._accepting.join()
        for channel in list(self._channels):
            channel.shut_socket()
        for thread in list(self._threads):
            thread.join()
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _accept_loop(self) -> None:
        while not self._closing:
            for key, _ in self._selector.select(_POLL_S):
                try:
                    connection, _ = key.fileobj.accept()  # type: ignore[union-attr]
                except OSError as error:
                    self._back_off(error)
                    continue
                if len(self._threads) >= _MAX_CONNECTIONS or (key.data and not is_same_user(connection)):
                    connection.close()
                    continue
                thread = threading.Thread(
                    target=self._serve_connection,
                    args=(connection, key.data),
                    name="radixway-kv-sender",
                    daemon=True,
                )
                self._threads.add(thread)
                try:
                    thread.start()
                except RuntimeError:  # the system has no more threads: they compute the prompt themselves
                    self._threads.discard(thread)
                    connection.close()
            self._on_poll()

    def _back_off(self, error: OSError) -> None:
        """Pause after an error: the peer may be gone, but without descriptors it goes on connecting."""
        if error.errno not in (errno.ECONNABORTED, errno.EAGAIN):
            self._stopped.wait(_BACKOFF_S)

    @torch.inference_mode()
    def _serve_connection(self, connection: socket.socket, local: bool) -> None:
        torch.set_num_threads(1)
        channel = TransferChannel(connection, self._timeout_s)
        self._channels.add(channel)
        if self._closing:  # a concurrent close may have missed this channel
            channel.shut_socket()
        try:
            with channel:
                self._handle_connection(channel, connection, local)
        except (KVTransferError, OSError) as error:
            log.debug("a decode engine disconnected before its request: %s", error)
        except Exception:
            log.exception("sending KV failed")
        finally:
            self._channels.discard(channel)
            self._threads.discard(threading.current_thread())

    def _handle_connection(self, channel: TransferChannel, connection: socket.socket, local: bool) -> None:
        writer: ChunkWriter
        if local:
            connection.settimeout(channel.timeout_s)
            writer = SharedMemoryChunkWriter(channel, receive_segment(connection, MAX_CHUNK_BYTES))
        else:
            writer = StreamChunkWriter(channel)
            if connection.family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel.send_message(TransferGreeting(PROTOCOL, self._local_name))
        self._serve(channel, writer)
