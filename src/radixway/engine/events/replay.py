"""The batches sent last, for those who missed some: subscribers that come late or lose a message."""

import logging
from collections import deque
from threading import Lock, Thread

import zmq

from radixway.engine.errors import EngineError

log = logging.getLogger(__name__)

_PATIENCE_MS = 5_000  # with one who asks and then does not read
_END = b"\xff" * 8


class ReplayBuffer:
    """The latest payloads with their sequence numbers, oldest out first. Safe to use from several threads."""

    def __init__(self, most: int) -> None:
        self._batches: deque[tuple[int, bytes]] = deque(maxlen=most)
        self._lock = Lock()

    def add_batch(self, sequence: int, payload: bytes) -> None:
        """Keep one; they come in order."""
        with self._lock:
            self._batches.append((sequence, payload))

    def batches_since(self, sequence: int) -> list[tuple[int, bytes]]:
        """Those with this number and later, as far as they are still here."""
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
        self._socket.sndtimeo = _PATIENCE_MS
        try:
            self._socket.bind(endpoint)
        except zmq.ZMQError as error:
            what = f"cannot replay KV events at {endpoint}: {os_error_message(error)}"
            raise EngineError(f"{what}; give another kv_events_replay_endpoint") from None
        self.endpoint = self._socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self._thread = Thread(target=self._serve_replays, name="radixway-kv-replay", daemon=True)
        self._thread.start()

    def join_thread(self) -> None:
        """Wait for the thread, which ends with the context."""
        self._thread.join()

    def _serve_replays(self) -> None:
        with self._socket:
            while True:
                try:
                    *envelope, asked = self._socket.recv_multipart()
                    if len(asked) != 8 or not envelope:
                        log.warning("a question for replay has %d bytes instead of 8", len(asked))
                        continue
                    self._send_batches(envelope, int.from_bytes(asked, "big"))
                except zmq.ContextTerminated:
                    return
                except zmq.ZMQError as error:  # gone, or too slow
                    log.warning("a replay of KV events was given up: %s", os_error_message(error))

    def _send_batches(self, envelope: list[bytes], start: int) -> None:
        for sequence, payload in self._history.batches_since(start):
            self._socket.send_multipart((*envelope, sequence.to_bytes(8, "big"), payload))
        self._socket.send_multipart((*envelope, _END, b""))


def os_error_message(error: zmq.ZMQError) -> str:
    """What the operating system says, without the address."""
    return zmq.strerror(error.errno or 0)
