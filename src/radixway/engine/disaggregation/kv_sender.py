"""A request of the prefill engine whose KV another engine comes for, and what of it there is so far.

    announced ──► under way ──► over       by the engine thread: hold_pages, mark_computed, release_pages
        └── never claimed ────────┘        by a thread for each connection: next_chunk, read_chunk

The sender reads the pages where they lie. So a request keeps them until its sender is over, and while the
engine thread moves them (publishing, preemption) it holds the lock that the sender copies under.
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from radixway.engine.disaggregation.transfer_channel import KVTransferError
from radixway.engine.engine_request import EngineRequest, ScheduledRequest
from radixway.engine.kv_store import KVStore
from radixway.engine.transformer_model import AttendFunction


@dataclass(slots=True, frozen=True)
class KVChunk:
    """KV of tokens [first, stop) in one layer, ready to be read."""

    layer: int
    first: int
    stop: int
    ready: "torch.cuda.Event | None"
    """On CUDA: when it has been computed."""


class KVSender:
    """The KV of one request of a prefill engine, for a decode engine to fetch."""

    def __init__(
        self,
        room: int,
        request: EngineRequest,
        store: KVStore,
        ended: "Callable[[KVSender, str, int], None]",
    ) -> None:
        self.room = room
        self.request = request
        self._store = store
        self._ended = ended
        self._pages = threading.Lock()  # held while pages are read, or moved
        self._owns_pages = False  # under that lock: the request's pages are its own
        self._changed = threading.Condition()
        self._computed = [0] * store.layers  # under the condition, as is what follows
        self._ready: torch.cuda.Event | None = None
        self._over: str | None = None

    @property
    def is_over(self) -> bool:
        """True when no thread reads the request's pages, or will."""
        return self._over is not None

    # The engine thread's.

    def hold_pages(self) -> None:
        """Mark the request as running: everything it has computed may be read."""
        with self._pages:
            self._owns_pages = True
        with self._changed:
            self._computed = [self.request.num_computed_tokens] * len(self._computed)
            self._changed.notify_all()

    def mark_computed(self, layer: int, stop: int) -> None:
        """Tokens [0, stop) have their KV in `layer`."""
        ready = None
        if self._store.device.type == "cuda":
            ready = torch.cuda.Event()  # type: ignore[no-untyped-call]
            ready.record()
        with self._changed:
            self._computed[layer], self._ready = stop, ready
            self._changed.notify_all()

    @contextmanager
    def page_move(self) -> Iterator[None]:
        """Keep pages from being read within this context, so that they may be exchanged for others."""
        with self._pages:
            yield

    def release_pages(self) -> None:
        """Give the request's pages back; it will compute again what was not sent."""
        with self._pages:
            self._owns_pages = False
        with self._changed:
            self._computed = [0] * len(self._computed)

    # Any thread's.

    def finish_transfer(self, reason: str = "", *, tokens: int = 0) -> None:
        """End the transfer: with success (of `tokens`), or for `reason`. Only the first call counts."""
        with self._pages:
            self._owns_pages = False
        with self._changed:
            if self._over is not None:
                return
            self._over = reason
            self._changed.notify_all()
        self._ended(self, reason, tokens)

    # The sender's.

    def next_chunk(self, sent: Sequence[int], stop: int, max_tokens: int, timeout_s: float) -> KVChunk | None:
        """Return the chunk to send after tokens [0, `sent`) of each layer, of up to `max_tokens`; None: no
        more.

        Waits for it to be computed. Raises KVTransferError when it will not be, or not in time.
        """
        layer = min(range(len(sent)), key=sent.__getitem__)
        if sent[layer] >= stop:
            return None
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while self._over is None:
                if self._computed[layer] > sent[layer]:
                    last = min(self._computed[layer], stop, sent[layer] + max_tokens)
                    return KVChunk(layer, sent[layer], last, self._ready)
                if not self._changed.wait(deadline - time.monotonic()):
                    raise KVTransferError("the prefill takes too long")
            raise KVTransferError(self._over or "sent already")

    def read_chunk(self, chunk: KVChunk, out: Tensor) -> bool:
        """Copy the KV of `chunk` into `out` (bytes). False: the request gave its pages back; ask again."""
        if chunk.ready is not None:
            chunk.ready.synchronize()
        with self._pages:
            if not self._owns_pages:
                return False
            slots = self._store.token_slots(self.request.pages, chunk.first, chunk.stop)
            self._store.read_tokens(chunk.layer, slots, out)
            return True


def notify_senders(attend: AttendFunction, work: Sequence[ScheduledRequest]) -> AttendFunction:
    """Wrap `attend` to tell the senders of `work` of each layer's KV; `attend` itself without any."""
    watched = [
        (request.kv_sender, request.num_computed_tokens + tokens)
        for request, tokens in work
        if request.kv_sender is not None and not request.kv_sender.is_over
    ]
    if not watched:
        return attend

    def attend_and_notify(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        out = attend(layer, q, k, v)
        for sender, stop in watched:
            sender.mark_computed(layer, stop)
        return out

    return attend_and_notify
