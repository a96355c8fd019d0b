"""The prefill engine's side: requests whose KV another engine will fetch, by room."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

import torch

from radixway.engine.disaggregation.bootstrap_server import BootstrapServer
from radixway.engine.disaggregation.kv_chunks import MAX_CHUNK_BYTES, ChunkWriter
from radixway.engine.disaggregation.kv_sender import KVSender
from radixway.engine.disaggregation.transfer_channel import (
    KVTransferError,
    TransferChannel,
    TransferDone,
    TransferFailure,
    TransferRequest,
)
from radixway.engine.disaggregation.transfer_stats import TransferCounter, TransferStats
from radixway.engine.engine_request import BootstrapRoom, EngineRequest
from radixway.engine.errors import InvalidRequestError
from radixway.engine.kv_identity import KVIdentity, digest_tokens
from radixway.engine.kv_store import KVStore

_MAX_ENDED_ROOMS = 4096


class PrefillKVManager:
    """Holds the `KVSender` of every announced request and answers the decode engines that fetch from them."""

    def __init__(self, store: KVStore, identity: KVIdentity, timeout_s: float) -> None:
        self.identity = identity
        self.store = store
        self.timeout_s = timeout_s
        """Seconds for which unfetched KV stays available."""
        self.wake: Callable[[], None] = lambda: None
        self.tally = TransferCounter()
        self._announced = threading.Condition()
        self._senders: dict[int, KVSender] = {}  # by room; under the condition, as is what follows
        self._closed = False
        self._claimed: set[int] = set()
        self._waiting_since: dict[int, float] = {}
        self._ended_rooms: dict[int, str] = {}  # why those ended, so that no engine waits for them
        self._ended: SimpleQueue[KVSender] = SimpleQueue()
        self._listener: BootstrapServer | None = None

    def start_listening(self, host: str, port: int, *, local: bool) -> None:
        """Listen for decode engines on `host` and `port`. `local`: offer shared memory to engines on this
        machine.

        Raises EngineError if the address cannot be listened on.
        """
        self._listener = BootstrapServer(
            host,
            port,
            self._serve_connection,
            local=local,
            timeout_s=self.timeout_s,
            on_poll=lambda: self.expire_unclaimed(time.monotonic()),
        )

    @property
    def port(self) -> int | None:
        """The port that decode engines fetch KV from; None before `start_listening`."""
        return self._listener.port if self._listener is not None else None

    def announce_request(self, request: EngineRequest) -> KVSender:
        """Let a decode engine fetch the KV of `request`. Raises `InvalidRequestError` for a taken room."""
        assert request.room is not None
        room = request.room.number
        sender = KVSender(room, request, self.store, self._on_ended)
        with self._announced:
            self._ended_rooms.pop(room, None)
            if room in self._senders:
                message = f"the room {room} is taken: use each for one request"
                raise InvalidRequestError("bootstrap_room", message)
            self._senders[room] = sender
            self._announced.notify_all()
        return sender

    def refuse_room(self, room: BootstrapRoom) -> None:
        """Refuse decode engines that ask for `room`, unless a request has been announced for it."""
        with self._announced:
            if room.number not in self._senders:
                self._drop_room(room.number, "the prefill engine refused the request")

    def claim_sender(self, room: int, timeout_s: float) -> KVSender:
        """The sender for `room`, for the first decode engine that asks; waits up to `timeout_s` seconds for
        its announcement.

        Raises KVTransferError if there is none or another engine has claimed it.
        """
        with self._announced:
            if not self._announced.wait_for(
                lambda: room in self._senders or room in self._ended_rooms or self._closed, timeout_s
            ):
                raise KVTransferError("no request came for this room")
            if self._closed:
                raise KVTransferError("the engine stops")
            if room in self._ended_rooms:
                raise KVTransferError(self._ended_rooms[room])
            if room in self._claimed:
                raise KVTransferError("another engine claimed this room")
            self._claimed.add(room)
            return self._senders[room]

    def mark_finished(self, request: EngineRequest, now_s: float) -> None:
        """Note that `request` finished at `now_s`; its KV stays for a limited time unless aborted."""
        assert request.finish is not None
        if request.kv_sender is None:
            return
        with self._announced:
            sender = self._senders.get(request.kv_sender.room)
            if sender is None or sender is not request.kv_sender:
                return
            self._waiting_since[sender.room] = now_s
        if request.finish.type == "abort":
            sender.finish_transfer("the prefill was aborted")

    def expire_unclaimed(self, now_s: float) -> None:
        """End the senders that were not claimed in time before `now_s` (seconds, monotonic)."""
        with self._announced:
            late = [
                self._senders[room]
                for room, since in self._waiting_since.items()
                if room not in self._claimed and now_s - since > self.timeout_s
            ]
        for sender in late:
            sender.finish_transfer("no engine fetched it in time")

    def poll_ended(self, wait_s: float = 0.0) -> list[KVSender]:
        """Return senders that have ended since the last call; waits up to `wait_s` seconds for the first."""
        senders: list[KVSender] = []
        while True:
            try:
                senders.append(self._ended.get(block=not senders and wait_s > 0, timeout=wait_s))
            except Empty:
                return senders

    def start_identity(self, identity: KVIdentity) -> None:
        """End every transfer; those that follow are of KV with this identity."""
        self.identity = identity
        self.abort_all_transfers("the weights changed")

    def abort_all_transfers(self, reason: str) -> None:
        """End every transfer now for `reason`; on return no thread reads pages any more."""
        with self._announced:
            senders = list(self._senders.values())
        for sender in senders:
            sender.finish_transfer(reason)

    def shutdown(self) -> None:
        """End all transfers and threads. Nothing may follow."""
        with self._announced:
            self._closed = True
            self._announced.notify_all()
        self.abort_all_transfers("the engine stops")
        if self._listener is not None:
            self._listener.shutdown()

    def stats(self) -> TransferStats:
        """May be called from any thread."""
        return self.tally.to_stats(len(self._senders))

    # Below: the threads of connections.

    def _serve_connection(self, channel: TransferChannel, writer: ChunkWriter) -> None:
        ask = channel.read_message()
        if not isinstance(ask, TransferRequest):
            raise KVTransferError("no question came")
        try:
            sender = self.claim_sender(ask.room, channel.timeout_s)
        except KVTransferError as error:
            channel.send_message(TransferFailure(str(error)))
            return
        try:
            self._send_kv(sender, ask, channel, writer)
        except KVTransferError as error:
            self._fail_transfer(sender, channel, str(error))
        except BaseException:
            self._fail_transfer(sender, channel, "the prefill engine failed")
            raise

    def _send_kv(
        self, sender: KVSender, ask: TransferRequest, channel: TransferChannel, writer: ChunkWriter
    ) -> None:
        store = self.store
        if ask.identity != self.identity.digest:
            raise KVTransferError("other weights, or KV of another kind")
        if not 0 <= ask.first <= ask.stop <= len(sender.request.tokens):
            raise KVTransferError("a question for tokens that there are not")
        if ask.tokens != digest_tokens(sender.request.tokens[: ask.stop].tobytes()):
            raise KVTransferError("another prompt")
        max_tokens = max(1, MAX_CHUNK_BYTES // store.layer_token_bytes)
        sent = [ask.first] * store.layers
        while (chunk := sender.next_chunk(sent, ask.stop, max_tokens, channel.timeout_s)) is not None:
            size = (chunk.stop - chunk.first) * store.layer_token_bytes
            buffer = writer.next_buffer()[:size]
            if sender.read_chunk(chunk, torch.frombuffer(buffer, dtype=torch.uint8)):
                writer.write_chunk(chunk.layer, chunk.first, chunk.stop - chunk.first, size)
                sent[chunk.layer] = chunk.stop
                self.tally.count_bytes(size)
        channel.send_message(TransferDone())
        sender.finish_transfer(tokens=ask.stop - ask.first)
        channel.wait_until_closed()

    def _fail_transfer(self, sender: KVSender, channel: TransferChannel, reason: str) -> None:
        sender.finish_transfer(reason)
        with suppress(KVTransferError):  # it may have left, which may be the reason
            channel.send_message(TransferFailure(reason))

    def _on_ended(self, sender: KVSender, reason: str, tokens: int) -> None:
        room = sender.room
        with self._announced:
            self._senders.pop(room, None)
            self._claimed.discard(room)
            self._waiting_since.pop(room, None)
            self._drop_room(room, reason or "another engine claimed this room")
        self.tally.count_ended(reason, tokens=tokens)
        self._ended.put(sender)
        self.wake()

    def _drop_room(self, room: int, reason: str) -> None:
        """Remember why `room` ended, for engines that ask later. The caller holds the condition."""
        self._ended_rooms[room] = reason
        if len(self._ended_rooms) > _MAX_ENDED_ROOMS:
            del self._ended_rooms[next(iter(self._ended_rooms))]
        self._announced.notify_all()
