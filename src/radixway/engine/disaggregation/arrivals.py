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

from radixway.engine.disaggregation.identity import Identity, tokens_digest
from radixway.engine.disaggregation.receiver import Receiver
from radixway.engine.disaggregation.room import Room
from radixway.engine.disaggregation.stats import Tally, TransferStats
from radixway.engine.disaggregation.wire import Ask, TransferFailed
from radixway.engine.pool import KVStore
from radixway.engine.request import Request

log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Arrival:
    """KV of a request's tokens [first, stop), on its way."""

    request: Request
    receiver: Receiver
    first: int
    stop: int
    reason: str = ""
    """Why not all of it came."""
    thread: threading.Thread = field(init=False)

    def tokens(self, page_size: int) -> int:
        """Up to where there is KV in every layer: all, or whole pages of what came."""
        came = self.receiver.complete
        return came if came == self.stop else came - came % page_size


class Arrivals:
    """A thread for each. `local`: use shared memory where the prefill engine is on this machine."""

    def __init__(self, store: KVStore, identity: Identity, timeout_s: float, *, local: bool) -> None:
        self.identity = identity
        self._store = store
        self._timeout_s = timeout_s
        self._local = local
        self._under_way: dict[str, Arrival] = {}
        self._ended: SimpleQueue[Arrival] = SimpleQueue()
        self._tally = Tally()

    def __len__(self) -> int:
        return len(self._under_way)

    @property
    def port(self) -> int | None:
        """Where others come for KV; None where they do not."""
        return None

    def fetch(self, request: Request, room: Room, stop: int) -> None:
        """Fetch the KV of tokens [computed, stop), for which the request has its pages."""
        first = request.computed
        self._store.clear_tail(request.pages, stop)
        arrival = self._start(request, room, first, stop)
        self._under_way[request.id] = arrival

    def decline(self, request: Request, room: Room) -> None:
        """Tell the prefill engine that nothing is wanted, so that it need not wait."""
        self._start(request, room, request.computed, request.computed)

    def arrived(self, wait_s: float = 0.0) -> list[Arrival]:
        """Those that have ended since; waits up to `wait_s` for the first."""
        arrivals: list[Arrival] = []
        while self._under_way:
            try:
                arrival = self._ended.get(block=not arrivals and wait_s > 0, timeout=wait_s)
            except Empty:
                break
            if self._under_way.get(arrival.request.id) is arrival:
                del self._under_way[arrival.request.id]
                arrivals.append(arrival)
                self._note(arrival)
        return arrivals

    def cut(self, request: Request, reason: str) -> Arrival | None:
        """End this request's now, if it has one: its pages hold what had come, and nothing more comes."""
        arrival = self._under_way.pop(request.id, None)
        if arrival is not None:
            arrival.reason = arrival.reason or reason
            arrival.receiver.cut()
            self._note(arrival)
        return arrival

    def begin(self, identity: Identity) -> None:
        """End every transfer; those that follow are of KV with this identity."""
        self.end_all("the weights changed")
        self.identity = identity

    def end_all(self, reason: str) -> None:
        """End every transfer now, and tell nobody; on return no thread reads or writes pages any more."""
        for arrival in list(self._under_way.values()):
            self.cut(arrival.request, reason)

    def close(self) -> None:
        """End all transfers and threads. Nothing may follow."""
        self.end_all("the engine stops")

    def stats(self) -> TransferStats:
        """May be called from any thread."""
        return self._tally.stats(len(self._under_way))

    def _start(self, request: Request, room: Room, first: int, stop: int) -> Arrival:
        ask = Ask(
            room=room.number,
            identity=self.identity.digest,
            first=first,
            stop=stop,
            tokens=tokens_digest(request.tokens[:stop].tobytes()),
        )
        slots = self._store.slots(request.pages, first, stop)
        receiver = Receiver(self._store, slots, ask, self._tally)
        arrival = Arrival(request, receiver, first, stop)
        arrival.thread = threading.Thread(
            target=self._fetch, args=(arrival, room), name="radixway-kv-receiver", daemon=True
        )
        try:
            arrival.thread.start()
        except RuntimeError:  # the system has no more threads
            self._ended_with(arrival, "no thread could be started for it")
        return arrival

    def _note(self, arrival: Arrival) -> None:
        tokens = arrival.tokens(self._store.page_size) - arrival.first
        whole = arrival.receiver.complete == arrival.stop
        self._tally.ended("" if whole else arrival.reason, tokens=tokens)
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
    def _fetch(self, arrival: Arrival, room: Room) -> None:
        torch.set_num_threads(1)
        try:
            with socket.create_connection((room.host, room.port), self._timeout_s) as connection:
                arrival.receiver.run(connection, self._timeout_s, local=self._local)
            reason = ""
        except TransferFailed as error:
            reason = str(error)
        except (OSError, UnicodeError, OverflowError, ValueError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            reason = f"the prefill engine cannot be reached: {why}"
        except Exception:
            log.exception("receiving KV failed")
            reason = "receiving failed"
        self._ended_with(arrival, reason)

    def _ended_with(self, arrival: Arrival, reason: str) -> None:
        if arrival.first < arrival.stop:
            arrival.reason = arrival.reason or reason  # who cut it knows better
            self._ended.put(arrival)
