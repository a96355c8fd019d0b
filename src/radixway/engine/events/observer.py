"""From pages to events: names every cached page by the hash of all that leads to it."""

from array import array
from collections.abc import Callable, Iterable
from hashlib import sha256

from radixway.engine.events.wire import DEVICE, AllBlocksCleared, BlockRemoved, BlockStored, Event


class CacheEvents:
    """The cache's observer. Gathers the events of a step and hands them on together.

    A page's hash is the first eight bytes, big-endian and unsigned, of a chained digest that anyone can
    compute again (SGLang's, for the namespace "")::

        digest(page) = sha256(digest(page before) + the page's token ids as little-endian uint32)

    where the digest before the first page is empty, and in a namespace sha256 of the namespace's name.
    """

    def __init__(self, page_size: int, send: Callable[[list[Event]], None]) -> None:
        self._page_size = page_size
        self._send = send
        self._digests: dict[int, bytes] = {}
        """By page id, of every page that is in the cache and that later requests can find."""
        self._epoch = ""
        self._events: list[Event] = []

    def stored(self, namespace: str, parent: int | None, pages: "array[int]", tokens: "array[int]") -> None:
        """`pages`, which hold `tokens`, were added behind the page `parent`."""
        if not namespace.startswith(self._epoch):
            return
        namespace = namespace.removeprefix(self._epoch)
        names = tuple(namespace.split("\0")) if namespace else ()
        if parent is not None:
            digest = self._digests[parent]
        else:
            digest = sha256(namespace.encode()).digest() if namespace else b""
        parent_hash = _hash(digest) if parent is not None else None
        data, width = tokens.tobytes(), self._page_size * tokens.itemsize
        hashes = []
        for i, page in enumerate(pages):
            digest = self._digests[page] = sha256(digest + data[i * width : (i + 1) * width]).digest()
            hashes.append(_hash(digest))
        self._events.append(
            BlockStored(
                block_hashes=hashes,
                parent_block_hash=parent_hash,
                token_ids=tokens.tolist(),
                block_size=self._page_size,
                lora_id=None,
                medium=DEVICE,
                lora_name=None,
                extra_keys=[names, *[None] * (len(pages) - 1)] if names and parent is None else None,
            )
        )

    def removed(self, pages: Iterable[int]) -> None:
        """`pages` were evicted."""
        hashes = [_hash(self._digests.pop(page)) for page in pages if page in self._digests]
        if not hashes:
            return
        if self._events and isinstance(latest := self._events[-1], BlockRemoved):
            latest.block_hashes.extend(hashes)
        else:
            self._events.append(BlockRemoved(hashes, DEVICE))

    def cleared(self) -> None:
        """Everything was dropped."""
        self._digests.clear()
        self._events = [AllBlocksCleared()]

    def begin(self, epoch: str) -> None:
        """Later requests have namespaces that begin with `epoch` and find nothing of what came before.

        What earlier ones still store or lose is told no more, nor is the epoch itself a salt to anybody.
        """
        self._epoch = epoch
        self.cleared()

    def hand_over(self) -> None:
        """A step is over: send what has happened in it, if anything has."""
        if self._events:
            events, self._events = self._events, []
            self._send(events)


def _hash(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "big")
