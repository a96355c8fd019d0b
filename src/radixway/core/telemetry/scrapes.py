"""Reads a gateway's `/metrics/prometheus`: totals now, and rates between two scrapes.

For views of a gateway (`radixway top`, the console's live page) that work without a Prometheus server.
The arithmetic is Prometheus' own: counters that fell were reset, quantiles lie on a line within a bucket.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Self

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Series = Mapping[Labels, float]

_NONE: Series = {}

_MAX_VALUE = 1e18
"""Larger samples and non-numbers are left out, so that sums stay finite."""


class InvalidMetricsError(ValueError):
    """A text that is no Prometheus exposition."""


@dataclass(frozen=True, slots=True)
class MetricsScrape:
    """A reading of all metrics."""

    at: float
    """By the reader's monotonic clock, in seconds."""
    samples: Mapping[str, Series]
    """By the sample's whole name (`…_total`, `…_bucket`), then by labels."""

    @classmethod
    def parse_text(cls, text: str, at: float) -> Self:
        """Read an exposition in Prometheus' text format. Raises InvalidMetricsError."""
        samples: dict[str, dict[Labels, float]] = {}
        try:
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    if "le" in sample.labels:
                        float(sample.labels["le"])
                    if not abs(sample.value) <= _MAX_VALUE:
                        continue
                    samples.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        except (ValueError, IndexError, KeyError) as error:
            raise InvalidMetricsError(f"no Prometheus exposition: {error}") from None
        return cls(at, samples)

    def total(self, name: str, /, **having: str) -> float:
        """The sum of a name's samples, of those that have these labels; 0 without any."""
        return sum(value for _, value in self._series_of(name, having))

    def totals_by(self, label: str, name: str, /, **having: str) -> dict[str, float]:
        """Return the totals for each value of one label; samples without it count under an empty one."""
        return _sum_by_label(label, self._series_of(name, having))

    def _series_of(self, name: str, having: Mapping[str, str]) -> Iterator[tuple[Labels, float]]:
        return _select_series(self.samples.get(name, _NONE), having)


@dataclass(frozen=True, slots=True)
class ScrapeDelta:
    """The difference between two scrapes of one gateway."""

    earlier: MetricsScrape
    later: MetricsScrape

    @property
    def seconds(self) -> float:
        """Seconds between the two; never 0."""
        return max(self.later.at - self.earlier.at, 1e-9)

    def increase(self, name: str, /, **having: str) -> float:
        """Return the increase of the counter `name` over all its series that have these labels."""
        return sum(grown for _, grown in _select_series(self._increases_of(name), having))

    def rate(self, name: str, /, **having: str) -> float:
        """Return the increase of the counter `name` per second."""
        return self.increase(name, **having) / self.seconds

    def rates_by(self, label: str, name: str, /, **having: str) -> dict[str, float]:
        """The rate for each value of one label."""
        grown = _sum_by_label(label, _select_series(self._increases_of(name), having))
        return {value: growth / self.seconds for value, growth in grown.items()}

    def mean(self, histogram: str, /, **having: str) -> float | None:
        """Return the mean of what `histogram` observed in between; None where nothing was."""
        count = self.increase(f"{histogram}_count", **having)
        return self.increase(f"{histogram}_sum", **having) / count if count else None

    def quantile(self, q: float, histogram: str, /, **having: str) -> float | None:
        """Return the `q`-quantile, as `histogram_quantile` has it; None where nothing was observed."""
        buckets = _sum_by_label("le", _select_series(self._increases_of(f"{histogram}_bucket"), having))
        return _histogram_quantile(
            q, sorted((float(bound), count) for bound, count in buckets.items() if bound)
        )

    def _increases_of(self, name: str) -> dict[Labels, float]:
        before = self.earlier.samples.get(name, _NONE)
        return {
            labels: _counter_increase(before.get(labels, 0.0), value)
            for labels, value in self.later.samples.get(name, _NONE).items()
        }


class ScrapeHistory:
    """The latest scrapes of one gateway, as far back as `window_s`."""

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self._scrapes: deque[MetricsScrape] = deque()

    def __len__(self) -> int:
        return len(self._scrapes)

    def add_scrape(self, scrape: MetricsScrape) -> None:
        """Add `scrape`, which is later than all before it; those that no window reaches any more go."""
        self._scrapes.append(scrape)
        while len(self._scrapes) > 2 and self._scrapes[1].at <= scrape.at - self.window_s:
            self._scrapes.popleft()

    def forget_scrapes(self) -> None:
        """Drop all scrapes: the next one is unrelated to them."""
        self._scrapes.clear()

    @property
    def latest(self) -> MetricsScrape | None:
        """The newest one, if there is any."""
        return self._scrapes[-1] if self._scrapes else None

    def delta_over_window(self) -> ScrapeDelta | None:
        """Return the change from the newest scrape back over the window, or as far as there is; None before
        the second."""
        return ScrapeDelta(self._scrapes[0], self._scrapes[-1]) if len(self._scrapes) > 1 else None


def _counter_increase(before: float, after: float) -> float:
    return after - before if after >= before else after  # it fell: the process was restarted


def _select_series(series: Series, having: Mapping[str, str]) -> Iterator[tuple[Labels, float]]:
    wanted = frozenset(having.items())
    return ((labels, value) for labels, value in series.items() if wanted <= labels)


def _sum_by_label(label: str, series: Iterator[tuple[Labels, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for labels, value in series:
        key = next((label_value for name, label_value in labels if name == label), "")
        sums[key] = sums.get(key, 0.0) + value
    return sums


def _histogram_quantile(q: float, buckets: list[tuple[float, float]]) -> float | None:
    """Return quantile `q`; `buckets`: upper bound and cumulative count in order, the last bound infinite."""
    if len(buckets) < 2 or buckets[-1][0] != inf or not buckets[-1][1]:
        return None
    rank = q * buckets[-1][1]
    lower = below = 0.0
    for bound, cumulative in buckets:
        if cumulative >= rank and cumulative > below:
            if bound == inf:
                return lower
            return lower + (bound - lower) * (rank - below) / (cumulative - below)
        lower, below = bound, cumulative
    return lower


_TOKENS = "radixway_tokens_total"
_FIRST_TOKEN = "radixway_time_to_first_token_seconds"
_BETWEEN_TOKENS = "radixway_inter_token_seconds"
_CACHED = "radixway_prefix_cached_tokens_total"
_PROMPTS = "radixway_prefix_prompt_tokens_total"


@dataclass(frozen=True, slots=True)
class GatewayStats:
    """A gateway over a time. None: nothing happened that could be measured."""

    at: float
    """End of the time, by the reader's monotonic clock."""
    requests_per_s: float
    errors_per_s: float
    """Answered with a status of 500 and more."""
    refused_per_s: float
    """Because workers are busy."""
    blocked_per_s: float
    """By the guard."""
    prompt_tokens_per_s: float
    completion_tokens_per_s: float
    first_token_p50_s: float | None
    first_token_p95_s: float | None
    between_tokens_p50_s: float | None
    between_tokens_p95_s: float | None
    predicted_hits: float | None
    """Share of prompts' tokens that routing expected in the worker's cache."""
    reported_hits: float | None
    """Share of prompts' tokens that workers said they had cached."""
    semantic_hits: float | None
    """Share of the questions that the semantic cache was asked."""
    in_flight: float
    queued: float
    ready: float
    workers: float


@dataclass(frozen=True, slots=True)
class WorkerStats:
    """A worker's figures over the same time."""

    requests_per_s: float
    completion_tokens_per_s: float
    kv_usage: float | None
    """Share of its KV cache that is held, if it says so."""
    reported_hits: float | None


def read_gateway_stats(change: ScrapeDelta) -> GatewayStats:
    """Read from `change` what the gateway did between two scrapes, and how it is by the later one."""
    now, statuses = change.later, change.rates_by("status", "radixway_requests_total")
    return GatewayStats(
        at=now.at,
        requests_per_s=sum(statuses.values()),
        errors_per_s=sum(rate for status, rate in statuses.items() if status.startswith("5")),
        refused_per_s=change.rate("radixway_refused_total"),
        blocked_per_s=change.rate("radixway_guard_actions_total", action="block"),
        prompt_tokens_per_s=change.rate(_TOKENS, kind="prompt"),
        completion_tokens_per_s=change.rate(_TOKENS, kind="completion"),
        first_token_p50_s=change.quantile(0.5, _FIRST_TOKEN),
        first_token_p95_s=change.quantile(0.95, _FIRST_TOKEN),
        between_tokens_p50_s=change.quantile(0.5, _BETWEEN_TOKENS),
        between_tokens_p95_s=change.quantile(0.95, _BETWEEN_TOKENS),
        predicted_hits=_ratio_or_none(
            change.increase(_CACHED, by="predicted"), change.increase(_PROMPTS, by="predicted")
        ),
        reported_hits=_ratio_or_none(
            change.increase(_CACHED, by="reported"), change.increase(_PROMPTS, by="reported")
        ),
        semantic_hits=_ratio_or_none(
            hits := change.increase("llm_cache_hits_total"),
            hits + change.increase("llm_cache_misses_total"),
        ),
        in_flight=now.total("radixway_in_flight"),
        queued=now.total("radixway_queued"),
        ready=now.total("radixway_workers_ready"),
        workers=now.total("radixway_workers"),
    )


def read_worker_stats(change: ScrapeDelta) -> dict[str, WorkerStats]:
    """Read from `change` the statistics of each worker, by its name."""
    requests = change.rates_by("worker", "radixway_worker_requests_total")
    completion = change.rates_by("worker", _TOKENS, kind="completion")
    cached = change.rates_by("worker", _CACHED, by="reported")
    prompts = change.rates_by("worker", _PROMPTS, by="reported")
    usage = change.later.totals_by("worker", "radixway_worker_kv_usage_ratio")
    return {
        worker: WorkerStats(
            requests_per_s=requests.get(worker, 0.0),
            completion_tokens_per_s=completion.get(worker, 0.0),
            kv_usage=usage.get(worker),
            reported_hits=_ratio_or_none(cached.get(worker, 0.0), prompts.get(worker, 0.0)),
        )
        for worker in change.later.totals_by("worker", "radixway_breaker") | requests
    }


def _ratio_or_none(numerator: float, denominator: float) -> float | None:
    return numerator / denominator if denominator else None
