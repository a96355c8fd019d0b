"""From pages to events, and their bytes on the wire.

Every cached page is named by the hash of all that leads to it. Events are MessagePack, as vLLM's own
subscribers decode it.
"""

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Literal, TypeAlias

import msgspec

EventsFormat = Literal["map", "array"]
"""`map`: an event is a map with its name under `type` (vLLM 0.24 and later). `array`: positional, the name
first (vLLM up to 0.23). The batch around them is positional in both: [seconds, events, rank]."""

DEVICE = "GPU"
"""The tier of the KV pool, whatever the device is: the one medium that every consumer knows."""

HOST, DISK = "CPU_PINNED", "DISK"
"""The tiers below it, under the names that vLLM and SGLang use."""


class BlockStored(msgspec.Struct, tag=True, omit_defaults=True, frozen=True):
    """Consecutive pages entered the cache.

    `token_ids` are those of all of them, so `len(token_ids) == len(block_hashes) * block_size`. The order of
    the fields is that of the array form; those without a default are always there in the map form.
    """

    block_hashes: list[int]
    """Unsigned 64-bit numbers."""
    parent_block_hash: int | None
    """The page before the first one; None where a sequence begins."""
    token_ids: list[int]
    block_size: int
    lora_id: int | None
    medium: str | None
    lora_name: str | None
    extra_keys: list[tuple[str, ...] | None] | None = None
    """What each page's hash covers besides its tokens: the salt, at the first page of a sequence.
    The pages after it inherit it along `parent_block_hash`."""
    group_idx: int | None = None
    kv_cache_spec_kind: str | None = None
    kv_cache_spec_sliding_window: int | None = None


class BlockRemoved(msgspec.Struct, tag=True, omit_defaults=True, frozen=True):
    """Pages left the cache."""

    block_hashes: list[int]
    medium: str | None
    group_idx: int | None = None


class AllBlocksCleared(msgspec.Struct, tag=True, frozen=True):
    """Nothing is cached any more."""


KVCacheEvent: TypeAlias = BlockStored | BlockRemoved | AllBlocksCleared

_RANK = 0  # of the data-parallel replica: this engine is its only one
_encode = msgspec.msgpack.Encoder().encode


def encode_batch(at_s: float, events: Sequence[KVCacheEvent], form: EventsFormat) -> bytes:
    """Encode one message's payload: `events` at `at_s` seconds since the epoch, in the layout `form`."""
    shown: Sequence[Any] = events
    if form == "array":
        shown = [(type(event).__name__, *msgspec.structs.astuple(event)) for event in events]
    return _encode((at_s, shown, _RANK))


class TierEventRecorder:
    """Records the events of one tier of the cache. Pages are known by the tier's own numbers: page ids, or
    slots.

    A page's hash, the same in every tier, is the first eight bytes, big-endian and unsigned, of a chained
    digest that anyone can compute again (SGLang's, for the namespace "")::

        digest(page) = sha256(digest(page before) + the page's token ids as little-endian uint32)

    where the digest before the first page is empty, and in a namespace sha256 of the namespace's name.
    """

    def __init__(self, medium: str, page_size: int, step: "StepEvents") -> None:
        self._medium = medium
        self._page_size = page_size
        self._step = step
        self._digests: dict[int, bytes] = {}
        """By page number, of pages that later requests can find."""

    def on_stored(
        self, namespace: str, parent: int | None, pages: "array[int]", tokens: "array[int]"
    ) -> None:
        """`pages`, which hold `tokens`, were added behind the page `parent`."""
        if not namespace.startswith(self._step.epoch):
            return
        if parent is not None and parent not in self._digests:  # found on disk, with unknown tokens
            return
        namespace = namespace.removeprefix(self._step.epoch)
        names = tuple(filter(None, namespace.split("\0")))
        if parent is not None:
            digest = self._digests[parent]
        else:
            digest = sha256(namespace.encode()).digest() if namespace else b""
        parent_hash = _hash_to_int(digest) if parent is not None else None
        data, width = tokens.tobytes(), self._page_size * tokens.itemsize
        hashes = []
        for i, page in enumerate(pages):
            digest = self._digests[page] = sha256(digest + data[i * width : (i + 1) * width]).digest()
            hashes.append(_hash_to_int(digest))
        self._step.events.append(
            BlockStored(
                block_hashes=hashes,
                parent_block_hash=parent_hash,
                token_ids=tokens.tolist(),
                block_size=self._page_size,
                lora_id=None,
                medium=self._medium,
                lora_name=None,
                extra_keys=[names, *[None] * (len(pages) - 1)] if names and parent is None else None,
            )
        )

    def __contains__(self, page: int) -> bool:
        """Return whether `page` was reported as cached."""
        return page in self._digests

    def on_removed(self, pages: Iterable[int]) -> None:
        """`pages` were evicted."""
        hashes = [_hash_to_int(self._digests.pop(page)) for page in pages if page in self._digests]
        if not hashes:
            return
        events = self._step.events
        if events and isinstance(latest := events[-1], BlockRemoved) and latest.medium == self._medium:
            latest.block_hashes.extend(hashes)
        else:
            events.append(BlockRemoved(hashes, self._medium))

    def on_lost(self) -> None:
        """The whole tier is gone."""
        self.on_removed(list(self._digests))

    def forget_pages(self) -> None:
        """Everything was dropped, which an `AllBlocksCleared` says for all tiers."""
        self._digests.clear()


@dataclass(slots=True)
class StepEvents:
    """The events since the last step, of all tiers."""

    epoch: str = ""
    events: list[KVCacheEvent] = field(default_factory=list)


class KVEventRecorder(TierEventRecorder):
    """The cache's observer. Gathers the events of a step, of all tiers, and hands them on together."""

    def __init__(self, page_size: int, send: Callable[[list[KVCacheEvent]], None]) -> None:
        super().__init__(DEVICE, page_size, StepEvents())
        self._send = send
        self._lower: list[TierEventRecorder] = []

    def tier_recorder(self, medium: str) -> TierEventRecorder:
        """A recorder for a lower tier of this cache, named `medium` in its events."""
        self._lower.append(TierEventRecorder(medium, self._page_size, self._step))
        return self._lower[-1]

    def on_cleared(self) -> None:
        """Everything was dropped, in every tier."""
        for medium in (self, *self._lower):
            medium.forget_pages()
        self._step.events = [AllBlocksCleared()]

    def start_epoch(self, epoch: str) -> None:
        """Later requests have namespaces that begin with `epoch` and find nothing of what came before.

        What earlier epochs still store or lose is not published, nor is the epoch itself a salt.
        """
        self._step.epoch = epoch
        self.on_cleared()

    def flush_step(self) -> None:
        """Send the events of the step that has ended, if there are any."""
        if self._step.events:
            events, self._step.events = self._step.events, []
            self._send(events)


def _hash_to_int(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "big")
