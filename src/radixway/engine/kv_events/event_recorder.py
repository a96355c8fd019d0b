"""From pages to events: names every cached page by the hash of all that leads to it."""

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from hashlib import sha256

from radixway.engine.kv_events.event_encoder import (
    DEVICE,
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    KVCacheEvent,
)


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
        """By number, of every page that is here and that later requests can find."""

    def on_stored(
        self, namespace: str, parent: int | None, pages: "array[int]", tokens: "array[int]"
    ) -> None:
        """`pages`, which hold `tokens`, were added behind the page `parent`."""
        if not namespace.startswith(self._step.epoch):
            return
        if parent is not None and parent not in self._digests:  # found on disk, and nobody knows its tokens
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
        """Whether `page` was told to be here."""
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

        What earlier ones still store or lose is told no more, nor is the epoch itself a salt to anybody.
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
