"""The prefill engine's side: whose KV is waited for, by room, and what became of it."""

import threading
from collections.abc import Callable
from queue import Empty, SimpleQueue

from radixway.engine.disaggregation.departure import Departure
from radixway.engine.disaggregation.identity import Identity
from radixway.engine.disaggregation.listener import Listener
from radixway.engine.disaggregation.room import Room
from radixway.engine.disaggregation.stats import Tally, TransferStats
from radixway.engine.disaggregation.wire import TransferFailed
from radixway.engine.errors import InvalidRequest
from radixway.engine.pool import KVStore
from radixway.engine.request import Request

_ROOMS_REMEMBERED = 4096


class Departures:
    """All of them by their rooms, and the book of what became of them."""

    def __init__(self, store: KVStore, identity: Identity, timeout_s: float) -> None:
        self.identity = identity
        self.store = store
        self.timeout_s = timeout_s
        """How long computed KV is kept for somebody who does not come, or is slow."""
        self.wake: Callable[[], None] = lambda: None
        """Tells the engine thread that one is over."""
        self.tally = Tally()
        self._announced = threading.Condition()
        self._departures: dict[int, Departure] = {}  # by room; under the condition, as is what follows
        self._closed = False
        self._claimed: set[int] = set()
        self._waiting_since: dict[int, float] = {}
        self._gone: dict[int, str] = {}  # why those are over, so that nobody waits for them in vain
        self._ended: SimpleQueue[Departure] = SimpleQueue()
        self._listener: Listener | None = None

    def listen(self, host: str, port: int, *, local: bool) -> None:
        """Be there for those who come. `local`: offer shared memory to engines on this machine.

        Raises EngineError if the address cannot be listened on.
        """
        self._listener = Listener(self, host, port, local=local)

    @property
    def port(self) -> int | None:
        """Where others come for KV; None where they do not."""
        return self._listener.port if self._listener is not None else None

    def announce(self, request: Request) -> Departure:
        """Somebody may come for this request's KV. Raises `InvalidRequest` if its room is taken."""
        assert request.room is not None
        room = request.room.number
        departure = Departure(room, request, self.store, self._over)
        with self._announced:
            self._gone.pop(room, None)
            if room in self._departures:
                raise InvalidRequest("bootstrap_room", f"the room {room} is taken: use each for one request")
            self._departures[room] = departure
            self._announced.notify_all()
        return departure

    def refuse(self, room: Room) -> None:
        """No request will come for this room, unless one has."""
        with self._announced:
            if room.number not in self._departures:
                self._forget(room.number, "the prefill engine refused the request")

    def claim(self, room: int, timeout_s: float) -> Departure:
        """For whoever comes for it, once it is announced. Raises TransferFailed if it is not."""
        with self._announced:
            if not self._announced.wait_for(
                lambda: room in self._departures or room in self._gone or self._closed, timeout_s
            ):
                raise TransferFailed("no request came for this room")
            if self._closed:
                raise TransferFailed("the engine stops")
            if room in self._gone:
                raise TransferFailed(self._gone[room])
            if room in self._claimed:
                raise TransferFailed("somebody else came for this room")
            self._claimed.add(room)
            return self._departures[room]

    def computed(self, request: Request, now_s: float) -> None:
        """A request has finished: its KV is complete, and kept for a limited time; or else it is over."""
        departure = request.departure
        if departure is None or request.finish is None:
            return
        if request.finish.type == "abort":
            departure.end("the prefill was aborted")
        with self._announced:
            if self._departures.get(departure.room) is departure:
                self._waiting_since[departure.room] = now_s

    def expire(self, now_s: float) -> None:
        """Give up those that nobody has come for in time."""
        with self._announced:
            late = [
                self._departures[room]
                for room, since in self._waiting_since.items()
                if room not in self._claimed and now_s - since > self.timeout_s
            ]
        for departure in late:
            departure.end("nobody came for it")

    def ended(self, wait_s: float = 0.0) -> list[Departure]:
        """Those that are over since the last call; waits up to `wait_s` for the first."""
        departures: list[Departure] = []
        while True:
            try:
                departures.append(self._ended.get(block=not departures and wait_s > 0, timeout=wait_s))
            except Empty:
                return departures

    def begin(self, identity: Identity) -> None:
        """End every transfer; those that follow are of KV with this identity."""
        self.identity = identity
        self.end_all("the weights changed")

    def end_all(self, reason: str) -> None:
        """End every transfer now; on return no thread reads or writes pages any more."""
        with self._announced:
            departures = list(self._departures.values())
        for departure in departures:
            departure.end(reason)

    def close(self) -> None:
        """End all transfers and threads. Nothing may follow."""
        with self._announced:
            self._closed = True
            self._announced.notify_all()
        self.end_all("the engine stops")
        if self._listener is not None:
            self._listener.close()

    def stats(self) -> TransferStats:
        """May be called from any thread."""
        return self.tally.stats(len(self._departures))

    def _over(self, departure: Departure, reason: str, tokens: int) -> None:
        room = departure.room
        with self._announced:
            self._departures.pop(room, None)
            self._claimed.discard(room)
            self._waiting_since.pop(room, None)
            self._forget(room, reason or "somebody else came for this room")
        self.tally.ended(reason, tokens=tokens)
        self._ended.put(departure)
        self.wake()

    def _forget(self, room: int, reason: str) -> None:
        """Under the condition: whoever comes for it from here on is told why in vain."""
        self._gone[room] = reason
        if len(self._gone) > _ROOMS_REMEMBERED:
            del self._gone[next(iter(self._gone))]
        self._announced.notify_all()
