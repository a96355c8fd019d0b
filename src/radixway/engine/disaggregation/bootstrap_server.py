"""Where decode engines come for KV: over TCP, or over a Unix socket if they are on this machine."""

import errno
import logging
import selectors
import socket
import threading
import time
import uuid
from contextlib import suppress
from typing import TYPE_CHECKING

import torch

from radixway.engine.disaggregation.kv_chunks import (
    PIECE_BYTES,
    ChunkWriter,
    SharedMemoryChunkWriter,
    StreamChunkWriter,
)
from radixway.engine.disaggregation.kv_identity import digest_tokens
from radixway.engine.disaggregation.kv_sender import KVSender
from radixway.engine.disaggregation.shared_memory import (
    LOCAL_NAMES,
    is_available,
    is_same_user,
    receive_segment,
)
from radixway.engine.disaggregation.transfer_channel import TransferChannel
from radixway.engine.disaggregation.transfer_protocol import (
    PROTOCOL,
    KVTransferError,
    TransferDone,
    TransferFailure,
    TransferGreeting,
    TransferRequest,
)
from radixway.engine.errors import EngineError

if TYPE_CHECKING:
    from radixway.engine.disaggregation.prefill_kv_manager import PrefillKVManager

log = logging.getLogger(__name__)

_POLL_S = 0.5
"""How often it looks for departures that nobody has come for."""

_REST_S = 0.1
"""After a connection that could not be accepted."""

_MAX_CONNECTIONS = 512


class BootstrapServer:
    """One thread that accepts, and one for each connection. Raises EngineError if it cannot listen there."""

    def __init__(self, departures: "PrefillKVManager", host: str, port: int, *, local: bool) -> None:
        self._departures = departures
        self._closing = False
        self._resting = threading.Event()
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
            self._local_name = f"{LOCAL_NAMES}{uuid.uuid4().hex}"
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
        self._resting.set()
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
            self._departures.expire_unclaimed(time.monotonic())

    def _back_off(self, error: OSError) -> None:
        """Who came may have left already. But while the process has no descriptors, they go on knocking."""
        if error.errno not in (errno.ECONNABORTED, errno.EAGAIN):
            self._resting.wait(_REST_S)

    @torch.inference_mode()
    def _serve_connection(self, connection: socket.socket, local: bool) -> None:
        torch.set_num_threads(1)
        channel = TransferChannel(connection, self._departures.timeout_s)
        self._channels.add(channel)
        if self._closing:  # by somebody who may not have seen the channel
            channel.shut_socket()
        try:
            with channel:
                self._handle_connection(channel, connection, local)
        except (KVTransferError, OSError) as error:
            log.debug("a decode engine left before it had asked: %s", error)
        except Exception:
            log.exception("sending KV failed")
        finally:
            self._channels.discard(channel)
            self._threads.discard(threading.current_thread())

    def _handle_connection(self, channel: TransferChannel, connection: socket.socket, local: bool) -> None:
        outlet: ChunkWriter
        if local:
            connection.settimeout(channel.timeout_s)
            outlet = SharedMemoryChunkWriter(channel, receive_segment(connection, PIECE_BYTES))
        else:
            outlet = StreamChunkWriter(channel)
            if connection.family != socket.AF_UNIX:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            channel.send_message(TransferGreeting(PROTOCOL, self._local_name))
        ask = channel.read_message()
        if not isinstance(ask, TransferRequest):
            raise KVTransferError("no question came")
        try:
            departure = self._departures.claim_sender(ask.room, channel.timeout_s)
        except KVTransferError as error:
            channel.send_message(TransferFailure(str(error)))
            return
        try:
            self._send_kv(departure, ask, channel, outlet)
        except KVTransferError as error:
            self._fail_transfer(departure, channel, str(error))
        except BaseException:
            self._fail_transfer(departure, channel, "the prefill engine failed")
            raise

    def _send_kv(
        self, departure: KVSender, ask: TransferRequest, channel: TransferChannel, outlet: ChunkWriter
    ) -> None:
        """All that was asked for, as it is computed; then the departure is over."""
        departures, store = self._departures, self._departures.store
        if ask.identity != departures.identity.digest:
            raise KVTransferError("other weights, or KV of another kind")
        if not 0 <= ask.first <= ask.stop <= len(departure.request.tokens):
            raise KVTransferError("a question for tokens that there are not")
        if ask.tokens != digest_tokens(departure.request.tokens[: ask.stop].tobytes()):
            raise KVTransferError("another prompt")
        most = max(1, PIECE_BYTES // store.layer_token_bytes)
        sent = [ask.first] * store.layers
        while (piece := departure.next_chunk(sent, ask.stop, most, channel.timeout_s)) is not None:
            size = (piece.stop - piece.first) * store.layer_token_bytes
            room = outlet.next_buffer()[:size]
            if departure.read_chunk(piece, torch.frombuffer(room, dtype=torch.uint8)):
                outlet.write_chunk(piece.layer, piece.first, piece.stop - piece.first, size)
                sent[piece.layer] = piece.stop
                departures.tally.count_bytes(size)
        channel.send_message(TransferDone())
        departure.finish_transfer(tokens=ask.stop - ask.first)
        channel.wait_until_closed()

    def _fail_transfer(self, departure: KVSender, channel: TransferChannel, reason: str) -> None:
        departure.finish_transfer(reason)
        with suppress(KVTransferError):  # it may have left, which may be the reason
            channel.send_message(TransferFailure(reason))
