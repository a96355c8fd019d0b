"""The decode engine's side: KV on its way to requests that wait for it.

    engine thread    fetch ─────────────► arrived: compute the rest, be it one token or all of them
    its own thread     └─ connect, ask, put what comes into the request's pages ─┘

Whatever goes wrong, the request goes on with the whole pages that it got. Nothing is written after
`cut_receive`, which waits for no more than the copy of one chunk: pages are free at once.
"""

import logging
import socket
import threading
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import torch
from torch import Tensor

from radixway.engine.disaggregation.kv_chunks import (
    LOCAL_SOCKET_PREFIX,
    MAX_CHUNK_BYTES,
    ChunkReader,
    SharedMemoryChunkReader,
    SharedSegment,
    StreamChunkReader,
    is_available,
    is_same_user,
    send_segment,
)
from radixway.engine.disaggregation.transfer_channel import (
    KV,
    PROTOCOL,
    FrameHeader,
    KVTransferError,
    TransferChannel,
    TransferDone,
    TransferGreeting,
    TransferRequest,
)
from radixway.engine.disaggregation.transfer_stats import TransferCounter, TransferStats
from radixway.engine.engine_request import BootstrapRoom, EngineRequest
from radixway.engine.kv_identity import KVIdentity, digest_tokens
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
            wants_local = local and self._slots.numel()
            local_connection = _connect_locally(greeting.local, timeout_s) if wants_local else None
            if local_connection is None:
                self._receive_chunks(channel, StreamChunkReader(channel))
                return
        connection, segment = local_connection
        with self._open_channel(connection, timeout_s) as channel:
            self._receive_chunks(channel, SharedMemoryChunkReader(channel, segment))

    def _open_channel(self, connection: socket.socket, timeout_s: float) -> TransferChannel:
        channel = self._channel = TransferChannel(connection, timeout_s)
        if self._is_cut:  # a concurrent cut may have missed this channel
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
    """Connect to the prefill engine over shared memory; None if it is on another machine or another
    user's."""
    if not name.startswith(LOCAL_SOCKET_PREFIX) or not is_available():
        return None  # a host named in a request must not choose another server on this machine
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


log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class KVReceiveTask:
    """KV of a request's tokens [first, stop), on its way."""

    request: EngineRequest
    receiver: KVReceiver
    first: int
    stop: int
    reason: str = ""
    """Why not all of it came."""
    thread: threading.Thread = field(init=False)

    def received_tokens(self, page_size: int) -> int:
        """Number of leading tokens with KV in every layer: all, or whole pages of `page_size` tokens."""
        came = self.receiver.complete_tokens
        return came if came == self.stop else came - came % page_size


class DecodeKVManager:
    """Receives KV for waiting requests, each in a thread of its own.

    `local`: use shared memory if the prefill engine is on this machine.
    """

    def __init__(self, store: KVStore, identity: KVIdentity, timeout_s: float, *, local: bool) -> None:
        self.identity = identity
        self._store = store
        self._timeout_s = timeout_s
        self._local = local
        self._under_way: dict[str, KVReceiveTask] = {}
        self._ended: SimpleQueue[KVReceiveTask] = SimpleQueue()
        self._tally = TransferCounter()

    def __len__(self) -> int:
        return len(self._under_way)

    def start_receive(self, request: EngineRequest, room: BootstrapRoom, stop: int) -> None:
        """Fetch the KV of tokens [computed, stop), for which the request has its pages."""
        first = request.num_computed_tokens
        self._store.zero_tail(request.pages, stop)
        task = self._make_task(request, room, first, stop)
        self._under_way[request.id] = task

    def decline_transfer(self, request: EngineRequest, room: BootstrapRoom) -> None:
        """Tell the prefill engine in `room` that `request` needs no KV."""
        self._make_task(request, room, request.num_computed_tokens, request.num_computed_tokens)

    def poll_received(self, wait_s: float = 0.0) -> list[KVReceiveTask]:
        """Return tasks that have ended since the last call; waits up to `wait_s` seconds for the first."""
        tasks: list[KVReceiveTask] = []
        while self._under_way:
            try:
                task = self._ended.get(block=not tasks and wait_s > 0, timeout=wait_s)
            except Empty:
                break
            if self._under_way.get(task.request.id) is task:
                del self._under_way[task.request.id]
                tasks.append(task)
                self._count_task(task)
        return tasks

    def cut_receive(self, request: EngineRequest, reason: str) -> KVReceiveTask | None:
        """End the transfer of `request`, if any, for `reason`; nothing more is written to its pages."""
        task = self._under_way.pop(request.id, None)
        if task is not None:
            task.reason = task.reason or reason
            task.receiver.stop_writing()
            self._count_task(task)
        return task

    def start_identity(self, identity: KVIdentity) -> None:
        """End every transfer; those that follow are of KV with this identity."""
        self.abort_all_transfers("the weights changed")
        self.identity = identity

    def abort_all_transfers(self, reason: str) -> None:
        """End every transfer now for `reason`; on return no thread writes pages any more."""
        for task in list(self._under_way.values()):
            self.cut_receive(task.request, reason)

    def shutdown(self) -> None:
        """End all transfers and threads. Nothing may follow."""
        self.abort_all_transfers("the engine stops")

    def stats(self) -> TransferStats:
        """May be called from any thread."""
        return self._tally.to_stats(len(self._under_way))

    def _make_task(self, request: EngineRequest, room: BootstrapRoom, first: int, stop: int) -> KVReceiveTask:
        ask = TransferRequest(
            room=room.number,
            identity=self.identity.digest,
            first=first,
            stop=stop,
            tokens=digest_tokens(request.tokens[:stop].tobytes()),
        )
        slots = self._store.token_slots(request.pages, first, stop)
        receiver = KVReceiver(self._store, slots, ask, self._tally)
        task = KVReceiveTask(request, receiver, first, stop)
        task.thread = threading.Thread(
            target=self._run_receive, args=(task, room), name="radixway-kv-receiver", daemon=True
        )
        try:
            task.thread.start()
        except RuntimeError:  # the system has no more threads
            self._finish_task(task, "no thread could be started for it")
        return task

    def _count_task(self, task: KVReceiveTask) -> None:
        tokens = task.received_tokens(self._store.page_size) - task.first
        is_complete = task.receiver.complete_tokens == task.stop
        self._tally.count_ended("" if is_complete else task.reason, tokens=tokens)
        if not is_complete:
            log.warning(
                "request %s: received %d of %d tokens of KV; the rest is computed here: %s",
                task.request.id,
                tokens,
                task.stop - task.first,
                task.reason,
            )

    # Below: the thread of a task.

    @torch.inference_mode()
    def _run_receive(self, task: KVReceiveTask, room: BootstrapRoom) -> None:
        torch.set_num_threads(1)
        try:
            with socket.create_connection((room.host, room.port), self._timeout_s) as connection:
                task.receiver.receive_kv(connection, self._timeout_s, local=self._local)
            reason = ""
        except KVTransferError as error:
            reason = str(error)
        except (OSError, UnicodeError, OverflowError, ValueError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            reason = f"the prefill engine cannot be reached: {why}"
        except Exception:
            log.exception("receiving KV failed")
            reason = "receiving failed"
        self._finish_task(task, reason)

    def _finish_task(self, task: KVReceiveTask, reason: str) -> None:
        if task.first < task.stop:
            task.reason = task.reason or reason  # who cut it knows better
            self._ended.put(task)
