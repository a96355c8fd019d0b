"""Publishes event batches over ZeroMQ from its own thread, and replays the last ones."""

import logging
import time
from collections import deque
from dataclasses import dataclass
from queue import Full, Queue
from threading import Lock, Thread

import zmq

from radixway.engine.errors import EngineError
from radixway.engine.kv_events.event_recorder import EventsFormat, KVCacheEvent, encode_batch

log = logging.getLogger(__name__)

_SEND_TIMEOUT_MS = 5_000  # with one who asks and then does not read
_END = b"\xff" * 8


class ReplayBuffer:
    """The latest payloads with their sequence numbers, oldest out first. Safe to use from several threads."""

    def __init__(self, max_batches: int) -> None:
        self._batches: deque[tuple[int, bytes]] = deque(maxlen=max_batches)
        self._lock = Lock()

    def add_batch(self, sequence: int, payload: bytes) -> None:
        """Keep the `payload` of batch number `sequence`; they come in order."""
        with self._lock:
            self._batches.append((sequence, payload))

    def batches_since(self, sequence: int) -> list[tuple[int, bytes]]:
        """Return the batches from number `sequence` on that are still buffered."""
        with self._lock:
            return [batch for batch in self._batches if batch[0] >= sequence]


class ReplayServer:
    """A ROUTER socket and its thread. One frame asks: the first sequence wanted, 8 bytes big-endian.

    Answered, as vLLM does, by `[sequence][payload]` for each batch and `[ff × 8][]` after the last one, each
    behind the envelope of the question (REQ's and DEALER's empty frame). Raises EngineError for an endpoint
    that cannot be bound.
    """

    def __init__(
        self, context: "zmq.Context[zmq.Socket[bytes]]", endpoint: str, history: ReplayBuffer
    ) -> None:
        self._history = history
        self._socket = context.socket(zmq.ROUTER)
        self._socket.linger = 0
        self._socket.ipv6 = "[" in endpoint
        self._socket.router_mandatory = True  # else what a slow reader has no room for is dropped silently
        self._socket.sndtimeo = _SEND_TIMEOUT_MS
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            what = f"cannot replay KV events at {endpoint}: {os_error_message(error)}"
            raise EngineError(f"{what}; give another kv_events_replay_endpoint") from None
        self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self.thread = Thread(target=self._serve_replays, name="radixway-kv-replay", daemon=True)
        """Ends with the context."""
        self.thread.start()

    def _serve_replays(self) -> None:
        with self._socket:
            while True:
                try:
                    *envelope, start = self._socket.recv_multipart()
                    if len(start) != 8 or not envelope:
                        log.warning("a replay request has %d bytes instead of 8", len(start))
                        continue
                    self._send_batches(envelope, int.from_bytes(start, "big"))
                except zmq.ContextTerminated:
                    return
                except zmq.ZMQError as error:  # gone, or too slow
                    log.warning("a replay of KV events failed: %s", os_error_message(error))

    def _send_batches(self, envelope: list[bytes], start: int) -> None:
        for sequence, payload in self._history.batches_since(start):
            self._socket.send_multipart((*envelope, sequence.to_bytes(8, "big"), payload))
        self._socket.send_multipart((*envelope, _END, b""))


def os_error_message(error: zmq.ZMQError) -> str:
    """The operating system's message for `error`, without the address."""
    return zmq.strerror(error.errno or 0)


_MAX_REPLAY_BATCHES = 10_000  # for replay
_MAX_QUEUED_BATCHES = 10_000  # not sent yet
_MAX_UNSENT_MESSAGES = 100_000  # for each subscriber that reads too slowly; after that it misses some
_LINGER_MS = 500


@dataclass(slots=True, frozen=True)
class PublisherInfo:
    """The publisher's endpoints, as `/server_info` shows them, with the ports that were taken."""

    endpoint: str
    replay_endpoint: str | None
    topic: str
    format: EventsFormat
    binds: bool
    """Subscribers connect to `endpoint`; otherwise the publisher does, and a subscriber must bind there."""
    published_batches: int
    dropped_batches: int


class ZmqEventPublisher:
    """A PUB socket, and a ROUTER for replay if configured: `[topic][sequence, 8 bytes big-endian][payload]`.

    Binds an endpoint that holds `*` or `::` or is `ipc`, and connects to any other, as vLLM does. Raises
    EngineError, in a sentence, for one that cannot be used.
    """

    def __init__(
        self,
        endpoint: str,
        *,
        replay_endpoint: str | None = None,
        topic: str = "",
        form: EventsFormat = "map",
        replay_batches: int = _MAX_REPLAY_BATCHES,
        queued_batches: int = _MAX_QUEUED_BATCHES,
    ) -> None:
        self._topic = topic
        self._form = form
        self._queue: Queue[tuple[int, float, list[KVCacheEvent]] | None] = Queue(queued_batches)
        self._sequence = 0
        self._dropped = 0
        self._history = ReplayBuffer(replay_batches)
        self._binds = "*" in endpoint or "::" in endpoint or endpoint.startswith("ipc://")
        self._context = zmq.Context()
        self._replay: ReplayServer | None = None
        try:
            self._socket = self._open_socket(endpoint)
            self._endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
            if replay_endpoint is not None:
                self._replay = ReplayServer(self._context, replay_endpoint, self._history)
        except EngineError:
            self._context.destroy(linger=0)
            raise
        self._thread = Thread(target=self._publish_loop, name="radixway-kv-events", daemon=True)
        self._thread.start()

    @property
    def info(self) -> PublisherInfo:
        """May be read from any thread."""
        return PublisherInfo(
            endpoint=self._endpoint,
            replay_endpoint=self._replay.endpoint if self._replay is not None else None,
            topic=self._topic,
            format=self._form,
            binds=self._binds,
            published_batches=self._sequence - self._dropped,
            dropped_batches=self._dropped,
        )

    def publish_events(self, events: list[KVCacheEvent]) -> None:
        """Queue `events` as one batch. If the queue is full it is lost, which a gap in the sequence shows."""
        batch = (self._sequence, time.time(), events)
        self._sequence += 1
        try:
            self._queue.put_nowait(batch)
        except Full:
            if not self._dropped:
                log.warning("KV events are produced faster than they are sent; subscribers will see gaps")
            self._dropped += 1

    def shutdown(self) -> None:
        """Send what is queued, then end the threads. Nothing may be published afterwards."""
        self._queue.put(None)
        self._thread.join()
        self._context.term()  # ends the replay thread too
        if self._replay is not None:
            self._replay.thread.join()

    def _open_socket(self, endpoint: str) -> "zmq.Socket[bytes]":
        socket = self._context.socket(zmq.PUB)
        socket.set_hwm(_MAX_UNSENT_MESSAGES)
        socket.linger = _LINGER_MS
        socket.ipv6 = "[" in endpoint
        try:
            (socket.bind if self._binds else socket.connect)(endpoint)
        except zmq.ZMQError as error:
            what = f"cannot publish KV events at {endpoint}: {os_error_message(error)}"
            raise EngineError(f"{what}; give another kv_events_endpoint") from None
        return socket

    def _publish_loop(self) -> None:
        topic = self._topic.encode()
        with self._socket:
            while (batch := self._queue.get()) is not None:
                sequence, at_s, events = batch
                payload = encode_batch(at_s, events, self._form)
                self._history.add_batch(sequence, payload)
                self._socket.send_multipart((topic, sequence.to_bytes(8, "big"), payload))
