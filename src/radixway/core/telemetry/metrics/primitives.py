"""Counts and histograms of the hot path. They belong to one event loop, so they need no locks.

prometheus_client's own take a lock for each value: an observation costs 1.0 µs with them and 0.2 µs here
(Python 3.11). What they hold is handed to prometheus_client when it is scraped.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from time import time
from typing import Generic, Literal, NamedTuple, TypeVar

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Exemplar, Sample

MergeMode = Literal["sum", "max", "min"]
"""How gateways that share a scrape are merged: their sum, or one value.

`max` for what all of them know alike, as how many workers there are; `min` for what is well only where it is
well everywhere. Counters are always added up.
"""


@dataclass(frozen=True, slots=True)
class CallbackCollector(Collector):
    """A gauge or counter whose children are made for each scrape."""

    kind: type[GaugeMetricFamily | CounterMetricFamily]
    name: str
    text: str
    labels: tuple[str, ...]
    values: Callable[[], Iterable[tuple[tuple[str, ...], float]]]

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        family = self.kind(self.name, self.text, labels=self.labels)
        for labels, value in self.values():
            family.add_metric(labels, value)
        yield family


class MetricsExposition(NamedTuple):
    """A body and what it is."""

    body: bytes
    content_type: str


class _StrippedFamilies(Collector):
    """Families without creation times, a third of all lines."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        for family in self._families:
            made = f"{family.name}_created"
            if any(sample.name == made for sample in family.samples):
                stripped = Metric(family.name, family.documentation, family.type, family.unit)
                stripped.samples = [sample for sample in family.samples if sample.name != made]
                yield stripped
            else:
                yield family


def render_exposition(families: Iterable[Metric], accept: str) -> MetricsExposition:
    """The families in the form that an `Accept` header asks for."""
    encode, content_type = choose_encoder(accept)
    return MetricsExposition(encode(_StrippedFamilies(families)), content_type)


SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)

Labels = tuple[str, ...]


class CounterValue:
    """A number that only grows; add to `value`."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0.0


class HistogramBuckets:
    """Counts of values by upper bound, and their sum."""

    __slots__ = ("bounds", "counts", "exemplars", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        """`bounds`: rising; what is beyond the last is counted, too."""
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0
        self.exemplars: dict[int, Exemplar] = {}
        """The latest of each bucket, where there is any."""

    def observe_value(self, value: float, trace_id: str | None = None) -> None:
        """Observe a value. `trace_id`: of the request that it was measured at, if traced."""
        at = bisect_left(self.bounds, value)
        self.counts[at] += 1
        self.total += value
        if trace_id is not None:
            self.exemplars[at] = Exemplar({"trace_id": trace_id}, value, time())

    def observe_values(self, values: Sequence[float]) -> None:
        """Observe `values`, of which none is of a traced request."""
        bounds, counts = self.bounds, self.counts
        for value in values:
            counts[bisect_left(bounds, value)] += 1
        self.total += sum(values)


ChildT = TypeVar("ChildT", CounterValue, HistogramBuckets)


class _LabeledFamily(Collector, Generic[ChildT]):
    """Counts by labels, each made when it is first asked for."""

    def __init__(self, name: str, text: str, labels: Labels, make: Callable[[], ChildT]) -> None:
        self._name, self._text, self._labels = name, text, labels
        self._make: Callable[[], ChildT] = make
        self._children: dict[Labels, ChildT] = {}

    def with_labels(self, *labels: str) -> ChildT:
        """The one of these labels. Keep it where it is asked for often."""
        child = self._children.get(labels)
        if child is None:
            child = self._children[labels] = self._make()
        return child

    def remove_labels(self, which: Callable[[Labels], bool]) -> None:
        """Drop the children with the labels `which`; later counts on them are not published."""
        for labels in [labels for labels in self._children if which(labels)]:
            del self._children[labels]


class LabeledCounter(_LabeledFamily[CounterValue]):
    """Counts by labels."""

    def __init__(self, name: str, text: str, labels: Labels = ()) -> None:
        """`name`: without `_total`."""
        super().__init__(name, text, labels, CounterValue)

    def collect(self) -> Iterator[Metric]:
        family = CounterMetricFamily(self._name, self._text, labels=self._labels)
        for labels, count in self._children.items():
            family.add_metric(labels, count.value)
        yield family


class LabeledHistogram(_LabeledFamily[HistogramBuckets]):
    """Histograms by labels."""

    def __init__(self, name: str, text: str, labels: Labels = (), bounds: Sequence[float] = SECONDS) -> None:
        super().__init__(name, text, labels, partial(HistogramBuckets, bounds))
        self._bounds = bounds
        self._written = [*map(repr, bounds), "+Inf"]

    def collect(self) -> Iterator[Metric]:
        """Yield the family, without a sum where values may be negative: it could fall."""
        family = Metric(self._name, self._text, "histogram")
        bucket, samples = f"{self._name}_bucket", family.samples
        for values, buckets in self._children.items():
            labels = dict(zip(self._labels, values, strict=True))
            total = 0
            for at, count in enumerate(buckets.counts):
                total += count
                le = labels | {"le": self._written[at]}
                samples.append(Sample(bucket, le, total, None, buckets.exemplars.get(at)))
            if self._bounds[0] >= 0:
                samples.append(Sample(f"{self._name}_count", labels, total))
                samples.append(Sample(f"{self._name}_sum", labels, buckets.total))
        yield family


class MetricGroup:
    """What one thing is counted with: its attributes that are collectors."""

    def collectors(self) -> list[Collector]:
        """Return them in the order in which they were made."""
        return [family for family in vars(self).values() if isinstance(family, _LabeledFamily)]
