"""Fleet membership: sources each name a whole set of workers, and changes are applied to the registry.

A source reports its set whenever it has changed; the differences to the last one are applied here::

    appears ──► JOINING ──► (health) READY ──► drains: DRAINING ──► vanishes: removed, once nothing is in hand
                                 ▲                     │
                                 └──── named again ────┘

What administrators do to single workers stays done until a source says something else of them.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from radixway.core.config import WorkerSettings
from radixway.routing.worker import Worker, WorkerState
from radixway.routing.worker_registry import WorkerRegistry

log = logging.getLogger(__name__)

CONFIG = "config"
"""The source that the configuration's workers have."""
REGISTERED = "registered"
"""Source of workers that register themselves."""
API = "api"
"""Source of workers added by a call, until a call removes them."""


@dataclass(frozen=True, slots=True)
class DiscoveredWorker:
    """A worker, as a source names it."""

    section: WorkerSettings
    draining: bool = False
    """It finishes its requests and gets no new ones."""


class FleetMembership:
    """Synchronous and free of I/O. A worker stays while any source names it, and drains when all say so."""

    def __init__(self, registry: WorkerRegistry) -> None:
        self.changes: Counter[str] = Counter(appeared=0, drained=0, returned=0, vanished=0)
        """Counts of what sources changed."""
        self._registry = registry
        self._members: dict[str, dict[str, DiscoveredWorker]] = {}
        """By source, then by URL."""
        self._leaving: set[Worker] = set()
        """Named by no source any more, with requests in flight."""
        registry.on_remove.append(self._on_worker_removed)

    def set_members(self, source: str, found: Iterable[DiscoveredWorker]) -> None:
        """Replace the workers that `source` names by `found`. One named twice drains if both say so."""
        before, now = self._members.get(source, {}), _index_by_url(found)
        self._members[source] = now
        for url, each in now.items():
            if each != before.get(url):
                self._apply_member(url, each)
        for url in before.keys() - now.keys():
            self._apply_absence(url)

    def add_member(self, source: str, found: DiscoveredWorker) -> None:
        """Add `found` to the workers that `source` names, or update it."""
        members = self._members.setdefault(source, {})
        url = found.section.url
        before, members[url] = members.get(url), found
        if found != before:
            self._apply_member(url, found)

    def join_worker(self, source: str, section: WorkerSettings) -> Worker:
        """Add a worker named by `source`; it comes back even if an administrator drained it."""
        self._members.setdefault(source, {})[section.url] = DiscoveredWorker(section)
        return self._register_worker(section)

    def remove_member(self, source: str, url: str) -> None:
        """Remove the worker at `url` from those that `source` names."""
        if self._members.get(source, {}).pop(url, None) is not None:
            self._apply_absence(url)

    def drain_worker(self, worker: Worker) -> None:
        """Drain `worker`: it gets no new requests, whichever sources name it."""
        if not worker.removed:
            self._drain_unnamed(worker)

    def resume_worker(self, worker: Worker) -> bool:
        """Take back that an administrator drained `worker`: it is probed, then gets requests again.

        Returns False where it drains because its sources say so, or name it no more.
        """
        if worker in self._leaving or (worker.sources and self._is_drained_by_all(worker.url)):
            return False
        self._registry.add_worker(worker.config)
        return True

    def remove_drained(self) -> None:
        """Remove workers that no source names and that have no requests in flight. Call it periodically."""
        for worker in [worker for worker in self._leaving if not worker.load.requests]:
            self._remove_worker(worker)

    def members_of(self, source: str) -> Iterable[DiscoveredWorker]:
        """Return the workers that `source` names."""
        return self._members.get(source, {}).values()

    def count_members(self) -> Mapping[str, int]:
        """Return the number of workers by source."""
        return {source: len(found) for source, found in self._members.items()}

    def check(self) -> None:
        """Check that leaving workers drain and have no source, and that each worker knows its sources."""
        for worker in self._leaving:
            assert worker.state is WorkerState.DRAINING, worker.name
            assert self._registry.get_worker(worker.url) is worker, worker.name
            assert not worker.sources, worker.name
        for worker in self._registry:
            assert worker.sources == tuple(self._sources_of(worker.url)), worker.name
            drains = worker.state is WorkerState.DRAINING
            assert drains or not worker.sources or not self._is_drained_by_all(worker.url), worker.name

    def _apply_member(self, url: str, now: DiscoveredWorker) -> None:
        worker = self._registry.get_worker(url)
        if not now.draining:
            if worker is not None and worker.state is WorkerState.DRAINING:
                self.changes["returned"] += 1
            self._register_worker(now.section)
        elif worker is not None:  # a worker that drains when first reported is not added
            self._leaving.discard(worker)
            self._note_sources(worker)
            if self._is_drained_by_all(url):
                self._drain_unnamed(worker)

    def _register_worker(self, section: WorkerSettings) -> Worker:
        known = self._registry.get_worker(section.url)
        worker = self._registry.add_worker(section)
        self._leaving.discard(worker)
        self._note_sources(worker)
        if known is None:
            self.changes["appeared"] += 1
            log.info("worker %s joined: reported by %s", worker.name, ", ".join(worker.sources))
        return worker

    def _apply_absence(self, url: str) -> None:
        worker = self._registry.get_worker(url)
        if worker is None:
            return
        self._note_sources(worker)
        if worker.sources:
            if self._is_drained_by_all(url):
                self._drain_unnamed(worker)
            return
        if worker.load.requests:
            self._drain_unnamed(worker)
            self._leaving.add(worker)
        else:
            self._remove_worker(worker)

    def _drain_unnamed(self, worker: Worker) -> None:
        if worker.state is not WorkerState.DRAINING:
            self.changes["drained"] += 1
            log.info("worker %s drains with %d requests in flight", worker.name, worker.load.requests)
            self._registry.set_state(worker, WorkerState.DRAINING)

    def _remove_worker(self, worker: Worker) -> None:
        self.changes["vanished"] += 1
        log.info("worker %s was removed", worker.name)
        self._registry.remove_worker(worker.url)

    def _on_worker_removed(self, worker: Worker) -> None:
        """Drop the worker's API membership, too; other sources may name it again."""
        self._leaving.discard(worker)
        self._members.get(API, {}).pop(worker.url, None)

    def _is_drained_by_all(self, url: str) -> bool:
        """Return whether all sources that name the worker drain it."""
        return all(self._members[source][url].draining for source in self._sources_of(url))

    def _note_sources(self, worker: Worker) -> None:
        worker.sources = tuple(self._sources_of(worker.url))

    def _sources_of(self, url: str) -> Iterator[str]:
        return (source for source, members in self._members.items() if url in members)


def _index_by_url(found: Iterable[DiscoveredWorker]) -> dict[str, DiscoveredWorker]:
    named: dict[str, DiscoveredWorker] = {}
    for each in found:
        if each.section.url not in named or not each.draining:
            named[each.section.url] = each
    return named
