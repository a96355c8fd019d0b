"""The decode engine's side: KV on its way to requests that wait for it.

    engine thread    fetch ─────────────► arrived: compute the rest, be it one token or all of them
    its own thread     └─ connect, ask, put what comes into the request's pages ─┘

Whatever goes wrong, the request goes on with the whole pages that it got. Nothing is written after `cut`,
which waits for no more than the copy of one piece: pages are free at once.
"""

import logging
import socket
import threading
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

import torch

from radixway.engine.disaggregation.kv_receiver import KVReceiver
from radixway.engine.disaggregation.transfer_protocol import KVTransferError, TransferRequest
from radixway.engine.disaggregation.transfer_stats import TransferCounter, TransferStats
from radixway.engine.engine_request import BootstrapRoom, EngineRequest
from radixway.engine.kv_identity import KVIdentity, digest_tokens
from radixway.engine.kv_store import KVStore

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
        arrival = self._make_task(request, room, first, stop)
        self._under_way[request.id] = arrival

    def decline_transfer(self, request: EngineRequest, room: BootstrapRoom) -> None:
        """Tell the prefill engine in `room` that nothing is wanted for `request`, so that it need not
        wait.
        """
        self._make_task(request, room, request.num_computed_tokens, request.num_computed_tokens)

    def poll_received(self, wait_s: float = 0.0) -> list[KVReceiveTask]:
        """Return tasks that have ended since the last call; waits up to `wait_s` seconds for the first."""
        arrivals: list[KVReceiveTask] = []
        while self._under_way:
            try:
                arrival = self._ended.get(block=not arrivals and wait_s > 0, timeout=wait_s)
            except Empty:
                break
            if self._under_way.get(arrival.request.id) is arrival:
                del self._under_way[arrival.request.id]
                arrivals.append(arrival)
                self._count_task(arrival)
        return arrivals

    def cut_receive(self, request: EngineRequest, reason: str) -> KVReceiveTask | None:
        """End the transfer of `request` for `reason`, if there is one: its pages keep what has come, and
        nothing more is written.
        """
        arrival = self._under_way.pop(request.id, None)
        if arrival is not None:
            arrival.reason = arrival.reason or reason
            arrival.receiver.stop_writing()
            self._count_task(arrival)
        return arrival

    def start_identity(self, identity: KVIdentity) -> None:
        """End every transfer; those that follow are of KV with this identity."""
        self.abort_all_transfers("the weights changed")
        self.identity = identity

    def abort_all_transfers(self, reason: str) -> None:
        """End every transfer now for `reason`, without reporting them; on return no thread writes pages any
        more.
        """
        for arrival in list(self._under_way.values()):
            self.cut_receive(arrival.request, reason)

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
        arrival = KVReceiveTask(request, receiver, first, stop)
        arrival.thread = threading.Thread(
            target=self._run_receive, args=(arrival, room), name="radixway-kv-receiver", daemon=True
        )
        try:
            arrival.thread.start()
        except RuntimeError:  # the system has no more threads
            self._finish_task(arrival, "no thread could be started for it")
        return arrival

    def _count_task(self, arrival: KVReceiveTask) -> None:
        tokens = arrival.received_tokens(self._store.page_size) - arrival.first
        whole = arrival.receiver.complete_tokens == arrival.stop
        self._tally.count_ended("" if whole else arrival.reason, tokens=tokens)
        if not whole:
            log.warning(
                "request %s: %d of %d tokens of KV came, and the rest is computed here: %s",
                arrival.request.id,
                tokens,
                arrival.stop - arrival.first,
                arrival.reason,
            )

    # Below: the thread of an arrival.

    @torch.inference_mode()
    def _run_receive(self, arrival: KVReceiveTask, room: BootstrapRoom) -> None:
        torch.set_num_threads(1)
        try:
            with socket.create_connection((room.host, room.port), self._timeout_s) as connection:
                arrival.receiver.receive_kv(connection, self._timeout_s, local=self._local)
            reason = ""
        except KVTransferError as error:
            reason = str(error)
        except (OSError, UnicodeError, OverflowError, ValueError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            reason = f"the prefill engine cannot be reached: {why}"
        except Exception:
            log.exception("receiving KV failed")
            reason = "receiving failed"
        self._finish_task(arrival, reason)

    def _finish_task(self, arrival: KVReceiveTask, reason: str) -> None:
        if arrival.first < arrival.stop:
            arrival.reason = arrival.reason or reason  # who cut it knows better
            self._ended.put(arrival)
