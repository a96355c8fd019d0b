"""Numbers that are not counted along, but read when somebody scrapes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
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
        """See `Collector`."""
        family = self.kind(self.name, self.text, labels=self.labels)
        for labels, value in self.values():
            family.add_metric(labels, value)
        yield family
