"""The prefill engine's side: whose KV is waited for, by room, and what became of it."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from radixway.engine.disaggregation.base import BootstrapRoom, TransferCounter, TransferStats
from radixway.engine.disaggregation.bootstrap_server import BootstrapServer
from radixway.engine.disaggregation.kv_identity import KVIdentity
from radixway.engine.disaggregation.kv_sender import KVSender
from radixway.engine.disaggregation.transfer_protocol import KVTransferError
from radixway.engine.engine_request import EngineRequest
from radixway.engine.errors import InvalidRequestError
from radixway.engine.kv_pool import KVStore

_ROOMS_REMEMBERED = 4096


class PrefillKVManager:
    """All of them by their rooms, and the book of what became of them."""

    def __init__(self, store: KVStore, identity: KVIdentity, timeout_s: float) -> None:
        self.identity = identity
        self.store = store
        self.timeout_s = timeout_s
        """How long computed KV is kept for somebody who does not come, or is slow."""
        self.wake: Callable[[], None] = lambda: None
        """Tells the engine thread that one is over."""
        self.tally = TransferCounter()
        self._announced = threading.Condition()
        self._departures: dict[int, KVSender] = {}  # by room; under the condition, as is what follows
        self._closed = False
        self._claimed: set[int] = set()
        self._waiting_since: dict[int, float] = {}
        self._gone: dict[int, str] = {}  # why those are over, so that nobody waits for them in vain
        self._ended: SimpleQueue[KVSender] = SimpleQueue()
        self._listener: BootstrapServer | None = None

    def start_listening(self, host: str, port: int, *, local: bool) -> None:
        """Be there for those who come. `local`: offer shared memory to engines on this machine.

        Raises EngineError if the address cannot be listened on.
        """
        self._listener = BootstrapServer(self, host, port, local=local)

    @property
    def port(self) -> int | None:
        """Where others come for KV; None where they do not."""
        return self._listener.port if self._listener is not None else None

    def announce_request(self, request: EngineRequest) -> KVSender:
        """Somebody may come for this request's KV. Raises `InvalidRequestError` if its room is taken."""
        assert request.room is not None
        room = request.room.number
        departure = KVSender(room, request, self.store, self._on_ended)
        with self._announced:
            self._gone.pop(room, None)
            if room in self._departures:
                raise InvalidRequestError(
                    "bootstrap_room", f"the room {room} is taken: use each for one request"
                )
            self._departures[room] = departure
            self._announced.notify_all()
        return departure

    def refuse_room(self, room: BootstrapRoom) -> None:
        """No request will come for this room, unless one has."""
        with self._announced:
            if room.number not in self._departures:
                self._drop_room(room.number, "the prefill engine refused the request")

    def claim_sender(self, room: int, timeout_s: float) -> KVSender:
        """For whoever comes for it, once it is announced. Raises KVTransferError if it is not."""
        with self._announced:
            if not self._announced.wait_for(
                lambda: room in self._departures or room in self._gone or self._closed, timeout_s
            ):
                raise KVTransferError("no request came for this room")
            if self._closed:
                raise KVTransferError("the engine stops")
            if room in self._gone:
                raise KVTransferError(self._gone[room])
            if room in self._claimed:
                raise KVTransferError("somebody else came for this room")
            self._claimed.add(room)
            return self._departures[room]

    def mark_finished(self, request: EngineRequest, now_s: float) -> None:
        """A request has finished: its KV is complete, and kept for a limited time; or else it is over."""
        departure = request.kv_sender
        if departure is None or request.finish is None:
            return
        if request.finish.type == "abort":
            departure.finish_transfer("the prefill was aborted")
        with self._announced:
            if self._departures.get(departure.room) is departure:
                self._waiting_since[departure.room] = now_s

    def expire_unclaimed(self, now_s: float) -> None:
        """Give up those that nobody has come for in time."""
        with self._announced:
            late = [
                self._departures[room]
                for room, since in self._waiting_since.items()
                if room not in self._claimed and now_s - since > self.timeout_s
            ]
        for departure in late:
            departure.finish_transfer("nobody came for it")

    def poll_ended(self, wait_s: float = 0.0) -> list[KVSender]:
        """Those that are over since the last call; waits up to `wait_s` for the first."""
        departures: list[KVSender] = []
        while True:
            try:
                departures.append(self._ended.get(block=not departures and wait_s > 0, timeout=wait_s))
            except Empty:
                return departures

    def start_identity(self, identity: KVIdentity) -> None:
        """End every transfer; those that follow are of KV with this identity."""
        self.identity = identity
        self.abort_all_transfers("the weights changed")

    def abort_all_transfers(self, reason: str) -> None:
        """End every transfer now; on return no thread reads or writes pages any more."""
        with self._announced:
            departures = list(self._departures.values())
        for departure in departures:
            departure.finish_transfer(reason)

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
        return self.tally.to_stats(len(self._departures))

    def _on_ended(self, departure: KVSender, reason: str, tokens: int) -> None:
        room = departure.room
        with self._announced:
            self._departures.pop(room, None)
            self._claimed.discard(room)
            self._waiting_since.pop(room, None)
            self._drop_room(room, reason or "somebody else came for this room")
        self.tally.count_ended(reason, tokens=tokens)
        self._ended.put(departure)
        self.wake()

    def _drop_room(self, room: int, reason: str) -> None:
        """Under the condition: whoever comes for it from here on is told why in vain."""
        self._gone[room] = reason
        if len(self._gone) > _ROOMS_REMEMBERED:
            del self._gone[next(iter(self._gone))]
        self._announced.notify_all()
