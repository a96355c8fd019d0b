"""Who says that a worker belongs to the fleet: sources, each with a whole set of workers, and what follows.

A source tells its set again whenever it has changed; the differences to the last one are applied here::

    appears ──► JOINING ──► (health) READY ──► drains: DRAINING ──► vanishes: removed, once nothing is in hand
                                 ▲                     │
                                 └──── named again ────┘

What administrators do to single workers stays done until a source says something else of them.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from radixway.config import WorkerSection
from radixway.routing.registry import Registry
from radixway.routing.worker import Worker, WorkerState

log = logging.getLogger(__name__)

CONFIG = "config"
"""The source that the configuration's workers have."""
REGISTERED = "registered"
"""Of workers that say themselves that they are there."""
API = "api"
"""Of workers added by a call, until a call removes them."""


@dataclass(frozen=True, slots=True)
class Found:
    """A worker, as a source names it."""

    section: WorkerSection
    draining: bool = False
    """It finishes what it has, and is to get nothing new."""


class Membership:
    """Synchronous and free of I/O. A worker stays while any source names it, and drains when all say so."""

    def __init__(self, registry: Registry) -> None:
        self.changes: Counter[str] = Counter(appeared=0, drained=0, returned=0, vanished=0)
        """What sources' words have done to workers."""
        self._registry = registry
        self._said: dict[str, dict[str, Found]] = {}
        """By source, then by URL."""
        self._leaving: set[Worker] = set()
        """Named by nobody any more, with requests in hand."""
        registry.on_remove.append(self._forget)

    def tell(self, source: str, found: Iterable[Found]) -> None:
        """`source` names these workers now and no others. One named twice drains if it does both times."""
        before, now = self._said.get(source, {}), _by_url(found)
        self._said[source] = now
        for url, each in now.items():
            if each != before.get(url):
                self._hear(url, each)
        for url in before.keys() - now.keys():
            self._miss(url)

    def name(self, source: str, found: Found) -> None:
        """`source` names one worker more, or one again; as `tell` with all that it has named."""
        said = self._said.setdefault(source, {})
        url = found.section.url
        before, said[url] = said.get(url), found
        if found != before:
            self._hear(url, found)

    def join(self, source: str, section: WorkerSection) -> Worker:
        """`source` names one more worker, or one again: it comes back even if an administrator drained it."""
        self._said.setdefault(source, {})[section.url] = Found(section)
        return self._take_in(section)

    def leave(self, source: str, url: str) -> None:
        """`source` names that worker no more."""
        if self._said.get(source, {}).pop(url, None) is not None:
            self._miss(url)

    def drain(self, worker: Worker) -> None:
        """It is to get nothing new, whoever names it."""
        if not worker.removed:
            self._drain(worker)

    def retire(self) -> None:
        """Remove those that nobody names, once nothing is in hand; to be called now and then."""
        for worker in [worker for worker in self._leaving if not worker.load.requests]:
            self._remove(worker)

    def counts(self) -> Mapping[str, int]:
        """How many workers each source names."""
        return {source: len(found) for source, found in self._said.items()}

    def check(self) -> None:
        """Who leaves is named by nobody and drains; every worker knows its sources. Raises AssertionError."""
        for worker in self._leaving:
            assert worker.state is WorkerState.DRAINING, worker.name
            assert self._registry.get(worker.url) is worker, worker.name
            assert not worker.sources, worker.name
        for worker in self._registry:
            assert worker.sources == tuple(self._sources_of(worker.url)), worker.name
            drains = worker.state is WorkerState.DRAINING
            assert drains or not worker.sources or not self._all_say_it_drains(worker.url), worker.name

    def _hear(self, url: str, now: Found) -> None:
        worker = self._registry.get(url)
        if not now.draining:
            if worker is not None and worker.state is WorkerState.DRAINING:
                self.changes["returned"] += 1
            self._take_in(now.section)
        elif worker is not None:  # one that drains as it is first heard of has nothing for us
            self._note_sources(worker)
            if self._all_say_it_drains(url):
                self._drain(worker)

    def _take_in(self, section: WorkerSection) -> Worker:
        known = self._registry.get(section.url)
        worker = self._registry.add(section)
        self._leaving.discard(worker)
        self._note_sources(worker)
        if known is None:
            self.changes["appeared"] += 1
            log.info("worker %s is there, as %s says", worker.name, ", ".join(worker.sources))
        return worker

    def _miss(self, url: str) -> None:
        worker = self._registry.get(url)
        if worker is None:
            return
        self._note_sources(worker)
        if worker.sources:
            if self._all_say_it_drains(url):
                self._drain(worker)
            return
        if worker.load.requests:
            self._drain(worker)
            self._leaving.add(worker)
        else:
            self._remove(worker)

    def _drain(self, worker: Worker) -> None:
        if worker.state is not WorkerState.DRAINING:
            self.changes["drained"] += 1
            log.info("worker %s drains with %d requests in hand", worker.name, worker.load.requests)
            self._registry.set_state(worker, WorkerState.DRAINING)

    def _remove(self, worker: Worker) -> None:
        self.changes["vanished"] += 1
        log.info("worker %s is gone", worker.name)
        self._registry.remove(worker.url)

    def _forget(self, worker: Worker) -> None:
        """Whoever removed it meant what callers had said, too; others may name it anew."""
        self._leaving.discard(worker)
        self._said.get(API, {}).pop(worker.url, None)

    def _all_say_it_drains(self, url: str) -> bool:
        """Of those that name it."""
        return all(self._said[source][url].draining for source in self._sources_of(url))

    def _note_sources(self, worker: Worker) -> None:
        worker.sources = tuple(self._sources_of(worker.url))

    def _sources_of(self, url: str) -> Iterator[str]:
        return (source for source, said in self._said.items() if url in said)


def _by_url(found: Iterable[Found]) -> dict[str, Found]:
    named: dict[str, Found] = {}
    for each in found:
        if each.section.url not in named or not each.draining:
            named[each.section.url] = each
    return named
