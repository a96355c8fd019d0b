"""Decides what moves between the tiers, and when.

    device ──evicted, or hit a second time──► host memory ──everything that comes there──► disk
       ◄────────── a prefix that a request matches, if it is long enough to pay ──────────────

- Down: what the device evicts would be lost, so it is copied first; nothing that fits the device is ever
  copied for that reason alone. A prefix that is hit a second time is copied at once: it is worth surviving a
  crash, and its eviction will cost nothing. What comes to host memory is written on to disk behind the
  engine's back, so making room in host memory never waits for the disk.
- Up: the request waits with its prefix pinned while the transfer thread fills pages that are already its own.

A copy down reads the pages before they are given to anyone else, in the engine thread; the rest of the way is
the transfer thread's. When that is too far behind, pages are dropped instead of waited for.
"""

import logging
from array import array
from collections.abc import Hashable
from dataclasses import dataclass, replace

from radixway.core.radix import RadixNode, RadixRoot
from radixway.engine.engine_request import EngineRequest
from radixway.engine.kv_events import DISK, HOST, KVEventRecorder, TierEventRecorder
from radixway.engine.kv_identity import KVFingerprint
from radixway.engine.kv_store import KVStore
from radixway.engine.page_pool import PageSpan
from radixway.engine.tiers.disk_tier import DIGEST_BYTES, DiskTier, SlabRecord, chain_page_digests
from radixway.engine.tiers.host_pool import HostKVPool, TierLoad
from radixway.engine.tiers.tier_index import TierIndex

log = logging.getLogger(__name__)

MIN_LOAD_TOKENS = 32
"""Tokens below which a prefix is computed rather than fetched: waiting costs at least a step."""

BACKLOG_BYTES = 2**27
"""Bytes that may wait to be copied down; more is dropped. Bounds memory, and the delay of loads."""


@dataclass(slots=True, frozen=True)
class TierStats:
    """The account of one tier, in tokens."""

    total: int
    """Capacity in tokens."""
    cached: int
    hit_tokens: int
    """Prompt tokens that were found here (and in no tier above it)."""
    evicted_tokens: int
    lost_tokens: int = 0
    """Not copied to host memory, because too much was waiting; or found damaged on disk."""


class TieredKVCache:
    """Host memory, and perhaps a disk, below the device's pool. Belongs to the engine thread."""

    def __init__(
        self,
        store: KVStore,
        host_slots: int,
        disk: DiskTier | None = None,
        fingerprint: KVFingerprint | None = None,
        events: KVEventRecorder | None = None,
    ) -> None:
        """`fingerprint` must be the one that `disk` was opened with."""
        self._lost_pages = {"host": 0, "disk": 0}
        self._store = store
        self._width = 4 * store.page_size
        self._host = TierIndex(host_slots, self._width)
        self._disk = disk
        self._fingerprint = fingerprint
        self._chain_seed = fingerprint.digest if fingerprint is not None else b""
        self._events: dict[TierIndex, TierEventRecorder] = {}
        if events is not None:
            self._events[self._host] = events.tier_recorder(HOST)
            if disk is not None:
                self._events[disk.tier] = events.tier_recorder(DISK)
            for tier, recorder in self._events.items():
                tier.leaving = recorder.on_removed
        if disk is not None:
            self._notify_restored(disk)
        self._copies = HostKVPool(store, host_slots)

    def save_prefix(self, node: RadixNode[bytes, PageSpan]) -> None:
        """Copy the prefix that ends at `node` to host memory, as far as it is not there yet."""
        path = node.path_from_root()
        root = path[0].parent
        assert isinstance(root, RadixRoot)
        key = b"".join(part.key for part in path)
        here = len(self._host.find_slots(key, root.namespace))
        if here == node.end:
            return
        if self._copies.transfer.pending_bytes > BACKLOG_BYTES:
            self._lost_pages["host"] += node.end - here
            return
        start, slots = self._host.store_pages(key, root.namespace)
        stop = start + len(slots)
        if not slots:
            return
        pages = array("i", (page for part in path for page in part.payload.ids))[start:stop]
        self._copies.save_pages(pages, slots)
        parent = self._host.find_slots(key, root.namespace)[start - 1] if start else None
        self._notify_stored(self._host, parent, key, root.namespace, start, slots)
        if self._disk is not None:
            self._save_on_disk(self._disk, key[: stop * self._width], root.namespace)

    def reachable_tokens(self, request: EngineRequest) -> int:
        """Leading tokens of `request` that could be loaded, if loading them pays; else 0."""
        host, disk, _ = self._find_slots(request)
        stop = max(len(host), len(disk)) * self._store.page_size
        return stop if stop - request.num_computed_tokens >= MIN_LOAD_TOKENS else 0

    def start_load(self, request: EngineRequest) -> TierLoad | None:
        """Begin to fill the pages of a locked `request`; `poll_loads` returns it later.

        None if there is no longer anything. Until it arrives its pages must be left alone.
        """
        host, disk, digests = self._find_slots(request, touch=True)
        start = request.num_computed_tokens // self._store.page_size
        end = len(request.pages)
        load = TierLoad(request, start, host[start:end], disk[max(start, len(host)) : end], digests)
        if not load.host and not load.disk:
            return None
        self._copies.start_load(load, self._disk)
        return load

    def poll_loads(self, wait_s: float | None = 0.0) -> list[TierLoad]:
        """Loads that have ended since; waits up to `wait_s` (None: as long as it takes) for the first."""
        self._drop_failed_disk()
        loads = self._copies.poll_loads(wait_s)
        for load in loads:
            if load.from_disk < len(load.disk):
                self._report_lost_page(load)
        return loads

    def discard_loads(self) -> None:
        """Wait until no load is under way, and drop the results."""
        while self.poll_loads(None):
            pass

    def clear_tiers(self, weights: str | None = None, weight_version: str | None = None) -> None:
        """Forget everything. With `weights`: from now on those are what KV is computed with."""
        if self._fingerprint is not None and weights is not None:
            version = weight_version or self._fingerprint.weight_version
            self._fingerprint = replace(self._fingerprint, weights=weights, weight_version=version)
            self._chain_seed = self._fingerprint.digest
        self._host.clear_index()
        if self._disk is not None:
            disk, seed = self._disk, self._chain_seed
            disk.tier.clear_index()
            self._copies.transfer.submit_copy(lambda: disk.restart_files(seed))

    def drain_copies(self) -> None:
        """Return when everything on its way has arrived; loads are returned by `poll_loads`."""
        self._copies.transfer.drain_copies()

    def shutdown(self) -> None:
        """Finish what is on its way down, and close the files."""
        self._copies.transfer.shutdown()
        if self._disk is not None:
            self._disk.close_files()

    def stats(self) -> dict[str, TierStats]:
        """Return figures by tier; hits are counted by the scheduler."""
        tiers = {"host": self._host}
        if self._disk is not None:
            tiers["disk"] = self._disk.tier
        page = self._store.page_size
        return {
            name: TierStats(
                total=tier.pool.total * page,
                cached=tier.num_pages * page,
                hit_tokens=0,
                evicted_tokens=tier.evicted * page,
                lost_tokens=self._lost_pages[name] * page,
            )
            for name, tier in tiers.items()
        }

    @property
    def writes_disk(self) -> bool:
        """True if there is a tier that outlives the process."""
        return self._disk is not None

    def check(self) -> None:
        """Recompute all accounts."""
        self._host.check()
        if self._disk is not None:
            self._disk.tier.check()

    def _find_slots(
        self, request: EngineRequest, *, touch: bool = False
    ) -> "tuple[array[int], array[int], bytes]":
        """Return slots on host and disk that a request may reuse, and its pages' digests."""
        key = request.tokens[: request.num_reusable_tokens].tobytes()
        host = self._host.find_slots(key, request.namespace, touch=touch)
        if self._disk is None or len(host) >= len(key) // self._width or not self._disk.tier.num_pages:
            return host, array("i"), b""
        seed, digests = request.digests
        if seed != self._chain_seed or len(digests) // DIGEST_BYTES != len(key) // self._width:
            digests = chain_page_digests(self._chain_seed, request.namespace, key, self._width)
            request.digests = self._chain_seed, digests
        return host, self._disk.tier.find_slots(digests, touch=touch), digests

    def _save_on_disk(self, disk: DiskTier, key: bytes, namespace: Hashable) -> None:
        """Write `key`, all in host memory, to disk as far as it is missing there."""
        digests = chain_page_digests(self._chain_seed, str(namespace), key, self._width)
        start, slots = disk.tier.store_pages(digests)
        each = [digests[at : at + DIGEST_BYTES] for at in range(0, len(digests), DIGEST_BYTES)]
        tokens = key if not namespace else bytes(len(key))
        records = [
            SlabRecord(
                slot,
                page,
                parent=each[page - 1] if page else bytes(DIGEST_BYTES),
                digest=each[page],
                tokens=tokens[page * self._width : (page + 1) * self._width],
            )
            for page, slot in enumerate(slots, start)
        ]
        sources = self._host.find_slots(key, namespace)[start : start + len(slots)]
        if records:
            parent = disk.tier.find_slots(digests)[start - 1] if start else None
            self._notify_stored(disk.tier, parent, key, namespace, start, slots)
            self._copies.write_to_disk(disk, records, sources)

    def _notify_stored(
        self,
        tier: TierIndex,
        parent: int | None,
        key: bytes,
        namespace: Hashable,
        start: int,
        slots: "array[int]",
    ) -> None:
        """Report that `slots` of a tier hold the pages of `key` from `start` on."""
        if (recorder := self._events.get(tier)) is not None:
            tokens = array("i")
            tokens.frombytes(key[start * self._width : (start + len(slots)) * self._width])
            recorder.on_stored(str(namespace), parent, slots, tokens)

    def _notify_restored(self, disk: DiskTier) -> None:
        """Report what an earlier run left on disk, if its tokens are known: nothing with a salt."""
        found, disk.found = disk.found, []
        if (recorder := self._events.get(disk.tier)) is None:
            return
        for prefix in found:
            key = b"".join(page.tokens for page in prefix)
            digests = b"".join(page.digest for page in prefix)
            if digests == chain_page_digests(self._chain_seed, "", key, self._width):
                new = next(n for n, page in enumerate(prefix) if page.slot not in recorder)
                parent = prefix[new - 1].slot if new else None
                slots = array("i", [page.slot for page in prefix[new:]])
                self._notify_stored(disk.tier, parent, key, "", new, slots)

    def _drop_failed_disk(self) -> None:
        if self._disk is not None and self._disk.failed is not None:
            log.error("the disk cache failed and is disabled: %s", self._disk.failed)
            self._copies.transfer.drain_copies()
            self._disk.close_files()
            if (recorder := self._events.get(self._disk.tier)) is not None:
                recorder.on_lost()
            self._disk = None

    def _report_lost_page(self, load: TierLoad) -> None:
        if self._disk is not None and self._disk.failed is None:
            self._lost_pages["disk"] += 1
            page = load.start + len(load.host) + load.from_disk
            log.warning("slot %d of the disk cache is damaged; it is not used", load.disk[load.from_disk])
            self._disk.tier.drop_page(load.digests, page)
