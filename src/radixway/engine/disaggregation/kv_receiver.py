"""Takes one request's KV from a prefill engine and puts it into the request's pages."""

import socket
import threading

import torch
from torch import Tensor

from radixway.engine.disaggregation.kv_chunks import (
    MAX_CHUNK_BYTES,
    ChunkReader,
    SharedMemoryChunkReader,
    StreamChunkReader,
)
from radixway.engine.disaggregation.shared_memory import (
    LOCAL_SOCKET_PREFIX,
    SharedSegment,
    is_available,
    is_same_user,
    send_segment,
)
from radixway.engine.disaggregation.transfer_channel import TransferChannel
from radixway.engine.disaggregation.transfer_protocol import (
    KV,
    PROTOCOL,
    FrameHeader,
    KVTransferError,
    TransferDone,
    TransferGreeting,
    TransferRequest,
)
from radixway.engine.disaggregation.transfer_stats import TransferCounter
from radixway.engine.kv_store import KVStore


class KVReceiver:
    """Receives one request's KV: `receive_kv` in its own thread, `stop_writing` from another."""

    def __init__(self, store: KVStore, slots: Tensor, ask: TransferRequest, tally: TransferCounter) -> None:
        """`slots` [stop - first]: where each token's KV goes."""
        self._store = store
        self._slots = slots
        self._ask = ask
        self._tally = tally
        self._writing = threading.Lock()
        self._received_tokens = [ask.first] * store.layers  # of each layer, up to which token
        self._is_cut = False
        self._channel: TransferChannel | None = None

    @property
    def complete_tokens(self) -> int:
        """The number of leading tokens with KV in every layer, as far as they are this request's own."""
        return min(self._received_tokens)

    def stop_writing(self) -> None:
        """Write nothing from here on."""
        with self._writing:
            self._is_cut = True
        if (channel := self._channel) is not None:
            channel.shut_socket()

    def receive_kv(self, connection: socket.socket, timeout_s: float, *, local: bool) -> None:
        """Receive over `connection`, or over shared memory if possible. Raises KVTransferError."""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._open_channel(connection, timeout_s) as channel:
            greeting = channel.read_message()
            if not isinstance(greeting, TransferGreeting) or greeting.protocol != PROTOCOL:
                raise KVTransferError("the prefill engine speaks another protocol")
            local_connection = (
                _connect_locally(greeting.local, timeout_s) if local and self._slots.numel() else None
            )
            if local_connection is None:
                self._receive_chunks(channel, StreamChunkReader(channel))
                return
        connection, segment = local_connection
        with self._open_channel(connection, timeout_s) as channel:
            self._receive_chunks(channel, SharedMemoryChunkReader(channel, segment))

    def _open_channel(self, connection: socket.socket, timeout_s: float) -> TransferChannel:
        channel = self._channel = TransferChannel(connection, timeout_s)
        if self._is_cut:  # by somebody who may not have seen the channel
            channel.shut_socket()
        return channel

    def _receive_chunks(self, channel: TransferChannel, reader: ChunkReader) -> None:
        channel.send_message(self._ask)
        while True:
            header = channel.read_header()
            if header.kind != KV:
                if not isinstance(channel.decode_message(header), TransferDone):
                    raise KVTransferError("a message out of turn")
                if self.complete_tokens < self._ask.stop:
                    raise KVTransferError("the prefill engine says it is through, and is not")
                return
            self._check_order(header)
            payload = reader.read_payload(header)
            self._write_chunk(header, payload)
            reader.release_payload(header)
            self._tally.count_bytes(header.size)

    def _check_order(self, header: FrameHeader) -> None:
        fits = (
            header.layer < len(self._received_tokens)
            and header.count > 0
            and header.first == self._received_tokens[header.layer]
            and header.first + header.count <= self._ask.stop
            and header.size == header.count * self._store.layer_token_bytes
        )
        if not fits:
            raise KVTransferError("a piece out of turn")

    def _write_chunk(self, header: FrameHeader, payload: memoryview) -> None:
        start = header.first - self._ask.first
        slots = self._slots[start : start + header.count]
        with self._writing:
            if self._is_cut:
                raise KVTransferError("it is no longer wanted")
            self._store.write_tokens(header.layer, slots, torch.frombuffer(payload, dtype=torch.uint8))
            self._received_tokens[header.layer] += header.count


def _connect_locally(name: str, timeout_s: float) -> tuple[socket.socket, SharedSegment] | None:
    """The prefill engine over shared memory; None if it is not on this machine, or another user's."""
    if not name.startswith(LOCAL_SOCKET_PREFIX) or not is_available():
        return None  # whoever was named in a request does not choose whom else on this machine we talk to
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(timeout_s)
        connection.connect(f"\0{name}")
        if is_same_user(connection):
            return connection, send_segment(connection, MAX_CHUNK_BYTES)
    except OSError:
        pass  # what listens there listens on another machine, or in another container
    connection.close()
    return None
