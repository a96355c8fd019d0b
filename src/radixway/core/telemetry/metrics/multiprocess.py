"""Several gateways, one scrape: with `PROMETHEUS_MULTIPROC_DIR` set, each answers for all in that directory.

prometheus_client keeps the values of its own counters there, in files that all processes map. What is counted
here each process writes beside them, at every scrape of its own and once a second. A process that has ended
is known by the lock that it no longer has: its counters go on counting, its gauges do not.
"""

import asyncio
import fcntl
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from secrets import token_hex

import msgspec
from prometheus_client import Counter, Histogram
from prometheus_client.metrics_core import Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from radixway.core.telemetry.metrics.primitives import MergeMode

log = logging.getLogger(__name__)

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"

_Key = tuple[str, tuple[tuple[str, str], ...]]


class FamilySnapshot(msgspec.Struct, array_like=True):
    """A family as one process knows it."""

    name: str
    kind: str
    text: str
    together: MergeMode
    samples: list[tuple[str, dict[str, str], float]]


class MultiprocessMetrics:
    """A process's part of the metrics directory."""

    def __init__(self, directory: Path, own: Callable[[], Iterable[tuple[Collector, MergeMode]]]) -> None:
        """`own`: what prometheus_client does not keep there. Raises OSError: nothing can be written there."""
        self._directory = directory
        self._own = own
        self._name = f"radixway-{os.getpid()}-{token_hex(4)}"
        self._problem: str | None = None
        self._writing = threading.Lock()
        self._spoilt: set[str] = set()
        """Unreadable files that were reported."""
        self._lock = (directory / f"{self._name}.lock").open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # It opens its files with the first value of their kind, which no request shall come to grief over.
        Counter("radixway_shared", "Counters have a file", registry=None)
        Histogram("radixway_shared_seconds", "Histograms have a file", registry=None)

    def snapshot_families(self) -> list[FamilySnapshot]:
        """Return the metrics of this process now. Belongs to the event loop in which it is counted."""
        return [family for own in self._own() for family in _snapshot_collector(*own)]

    async def snapshot_families_async(self) -> list[FamilySnapshot]:
        """Return the metrics of this process, letting other tasks run between two collectors."""
        own: list[FamilySnapshot] = []
        for collector, together in list(self._own()):
            own += _snapshot_collector(collector, together)
            await asyncio.sleep(0)
        return own

    def merge_processes(self, own: list[FamilySnapshot], names: Collection[str]) -> Iterator[Metric]:
        """Yield the families `names` of all processes, after telling others `own`. From any thread."""
        self.publish_snapshot(own)
        others = list(self._other_snapshots())
        living = [own, *(families for families, lives in others if lives)]
        workers = {_worker_label(sample) for families in living for sample in _worker_states(families)}
        merged: dict[str, tuple[FamilySnapshot, dict[_Key, float]]] = {}
        for family in (family for families in living for family in families):
            _merge_family(merged, family)
        for family in (family for families, lives in others if not lives for family in families):
            if family.kind != "gauge":
                family.samples = [row for row in family.samples if _worker_label(row) in (None, *workers)]
                _merge_family(merged, family)
        yield from (family for family in self._native_families() if family.name in names)
        for family, values in merged.values():
            metric = Metric(family.name, family.text, family.kind)
            for (name, labels), value in values.items():
                metric.add_sample(name, dict(labels), value)
            yield metric

    def save_and_close(self) -> None:
        """Publish the last metrics, which outlive the process, and unlock its file."""
        self.publish_snapshot(self.snapshot_families())
        self._lock.close()

    def publish_snapshot(self, families: list[FamilySnapshot]) -> None:
        """Publish `families` to the other processes. From any thread."""
        with self._writing:
            self._write_snapshot(families)

    def _write_snapshot(self, families: list[FamilySnapshot]) -> None:
        path = self._directory / f"{self._name}.json"
        passing = path.with_suffix(".new")
        try:
            passing.write_bytes(msgspec.json.encode(families))
            passing.replace(path)
        except OSError as error:
            problem: str | None = f"{path}: {error.strerror}"
        else:
            problem = None
        if problem is not None and problem != self._problem:
            log.error("the metrics of this process could not be published: %s", problem)
        self._problem = problem

    def _native_families(self) -> Iterable[Metric]:
        """Collect prometheus_client's files except partial ones."""
        files = sorted(map(str, self._directory.glob("*.db")))
        try:
            return _merge_native_files(files)
        except Exception:  # noqa: BLE001  any error of damaged files
            return _merge_native_files([file for file in files if self._is_readable(file)])

    def _is_readable(self, file: str) -> bool:
        try:
            _merge_native_files([file])
        except Exception as error:  # noqa: BLE001  as above
            if file not in self._spoilt:
                self._spoilt.add(file)
                log.warning("the metrics in %s are left out: %s", file, type(error).__name__)
            return False
        return True

    def _other_snapshots(self) -> Iterator[tuple[list[FamilySnapshot], bool]]:
        """Return other processes' snapshots, and whether each still runs."""
        for path in sorted(self._directory.glob("radixway-*.json")):
            if path.stem == self._name:
                continue
            try:
                families = msgspec.json.decode(path.read_bytes(), type=list[FamilySnapshot])
                yield families, _is_locked(path.with_suffix(".lock"))
            except (OSError, msgspec.DecodeError) as error:
                log.warning("the metrics in %s are left out: %s", path, type(error).__name__)


def _snapshot_collector(collector: Collector, together: MergeMode) -> Iterator[FamilySnapshot]:
    for family in collector.collect():
        samples = [(sample.name, sample.labels, sample.value) for sample in family.samples]
        yield FamilySnapshot(family.name, family.type, family.documentation, together, samples)


def _merge_family(
    merged: dict[str, tuple[FamilySnapshot, dict[_Key, float]]], family: FamilySnapshot
) -> None:
    first, values = merged.setdefault(family.name, (family, {}))
    for name, labels, value in family.samples:
        key = name, tuple(labels.items())
        before = values.get(key)
        if before is None:
            values[key] = value
        elif first.kind != "gauge" or first.together == "sum":
            values[key] = before + value
        else:
            values[key] = max(before, value) if first.together == "max" else min(before, value)


def _merge_native_files(files: list[str]) -> Iterable[Metric]:
    return MultiProcessCollector.merge(files)  # type: ignore[no-untyped-call,no-any-return]


def _worker_states(families: Iterable[FamilySnapshot]) -> Iterator[tuple[str, dict[str, str], float]]:
    for family in families:
        if family.name == "radixway_worker_state":
            yield from family.samples


def _worker_label(sample: tuple[str, dict[str, str], float]) -> str | None:
    return sample[1].get("worker")


def _is_locked(path: Path) -> bool:
    with path.open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
