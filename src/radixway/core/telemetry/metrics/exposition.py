"""Numbers that are read at each scrape, and its answer: Prometheus text, or OpenMetrics on request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

MergeMode = Literal["sum", "max", "min"]
"""What gateways that share a scrape say together: their sum, or what one of them says.

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
        """Implement `Collector`."""
        family = self.kind(self.name, self.text, labels=self.labels)
        for labels, value in self.values():
            family.add_metric(labels, value)
        yield family


class MetricsExposition(NamedTuple):
    """A body and what it is."""

    body: bytes
    content_type: str


class _StrippedFamilies(Collector):
    """What was collected before, but for the times at which series were made: a third of all lines."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Implement `Collector`."""
        for family in self._families:
            made = f"{family.name}_created"
            if any(sample.name == made for sample in family.samples):
                told = Metric(family.name, family.documentation, family.type, family.unit)
                told.samples = [sample for sample in family.samples if sample.name != made]
                yield told
            else:
                yield family


def render_exposition(families: Iterable[Metric], accept: str) -> MetricsExposition:
    """The families in the form that an `Accept` header asks for."""
    encode, content_type = choose_encoder(accept)
    return MetricsExposition(encode(_StrippedFamilies(families)), content_type)
