"""Counts a gateway's requests by model: sums over a short time, which add up to longer ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass, field
from math import exp2, log2
from statistics import fmean, pvariance

from radixway.core.pipeline import ANY_MODEL, Next, Reply, Request, TokenUsage
from radixway.routing import PairChoice, WorkerChoice, WorkerRegistry
from radixway.routing.transports.traffic_feed import on_usage

_PER_DOUBLING = 16
"""Histogram classes between a value and its double: percentiles are within 5 %."""
_MIN_VALUE = 1e-6
_BURSTINESS = (1.0, 16.0)


class RatioHistogram:
    """Values above 0 by classes of equal ratio, in bounded memory; mean and mean square are exact."""

    __slots__ = ("_classes", "count", "squares", "total")

    def __init__(self) -> None:
        self._classes: Counter[int] = Counter()
        self.count = 0
        self.total = 0.0
        self.squares = 0.0

    def add_value(self, value: float) -> None:
        """Add a value; one that is not above 0 counts as almost nothing."""
        self._classes[round(_PER_DOUBLING * log2(max(value, _MIN_VALUE)))] += 1
        self.count += 1
        self.total += value
        self.squares += value * value

    def merge_histogram(self, other: RatioHistogram) -> None:
        """Add all values of `other`."""
        self._classes.update(other._classes)
        self.count += other.count
        self.total += other.total
        self.squares += other.squares

    @property
    def mean(self) -> float:
        """0 without values."""
        return self.total / self.count if self.count else 0.0

    @property
    def variability(self) -> float:
        """Squared coefficient of variation: variance over squared mean. 0 without values."""
        return max(0.0, self.squares / self.count / self.mean**2 - 1) if self.mean else 0.0

    def find_percentile(self, share: float) -> float | None:
        """The least value that `share` of all do not exceed, give or take its class. None without values."""
        left = share * self.count
        for at in sorted(self._classes):
            left -= self._classes[at]
            if left <= 0:
                return exp2(at / _PER_DOUBLING)
        return None


@dataclass(slots=True)
class TrafficWindow:
    """A model's requests in `span_s` seconds."""

    span_s: float = 0.0
    requests: int = 0
    """Arrived requests, answered or not."""
    prompt_tokens: int = 0
    """Prompt tokens of requests that a replica got."""
    pairs: int = 0
    """Pairs of a prompt's token to prefill and one before it, cached or not."""
    uncached: RatioHistogram = field(default_factory=RatioHistogram)
    """Tokens that each of those had to prefill."""
    ttft_s: RatioHistogram = field(default_factory=RatioHistogram)
    answers: int = 0
    """Finished answers."""
    output_tokens: int = 0
    """Tokens of those."""
    decode_s: float = 0.0
    """Sum of the times from first to last token."""
    gaps: int = 0
    """Gaps between those tokens."""

    def on_arrival(self) -> None:
        """A request arrived."""
        self.requests += 1

    def on_placed(self, prompt_tokens: int, uncached_tokens: int) -> None:
        """A replica was found for it, on which so many of its tokens are to be prefilled."""
        uncached = min(max(1, uncached_tokens), max(1, prompt_tokens))
        self.prompt_tokens += prompt_tokens
        self.pairs += uncached * (prompt_tokens - uncached) + uncached * (uncached - 1) // 2
        self.uncached.add_value(uncached)

    def on_first_token(self, ttft_s: float) -> None:
        """Note the first token, `ttft_s` seconds after the request."""
        self.ttft_s.add_value(ttft_s)

    def on_finished(self, output_tokens: int, decode_s: float | None) -> None:
        """Record an answer of so many tokens that ended so long after its first; None if that is unknown."""
        self.answers += 1
        self.output_tokens += output_tokens
        if decode_s is not None and output_tokens > 1:
            self.decode_s += decode_s
            self.gaps += output_tokens - 1

    @property
    def itl_s(self) -> float | None:
        """Mean seconds between tokens; None where there were none."""
        return self.decode_s / self.gaps if self.gaps else None

    @classmethod
    def merge_windows(cls, parts: Iterable[TrafficWindow]) -> TrafficWindow:
        """Merge consecutive windows."""
        merged = cls()
        for part in parts:
            merged.span_s += part.span_s
            merged.requests += part.requests
            merged.prompt_tokens += part.prompt_tokens
            merged.pairs += part.pairs
            merged.uncached.merge_histogram(part.uncached)
            merged.ttft_s.merge_histogram(part.ttft_s)
            merged.answers += part.answers
            merged.output_tokens += part.output_tokens
            merged.decode_s += part.decode_s
            merged.gaps += part.gaps
        return merged


@dataclass(frozen=True, slots=True)
class TrafficDemand:
    """Demand on a fleet, as rates and means."""

    requests_per_s: float
    uncached_tokens: float
    """Tokens to prefill per request."""
    long_tokens: float
    """The same of the request at the objective's percentile."""
    variability: float
    """Squared coefficient of variation of the tokens to prefill."""
    burstiness: float
    """Variance of arrivals over their mean: 1 for independent ones."""
    pairs: float
    """Pairs of tokens in prefill, per request."""
    context_tokens: float
    """Tokens that a decoding request attends to."""
    output_tokens: float
    """Per answer."""


def estimate_demand(parts: Sequence[TrafficWindow], percentile: float) -> TrafficDemand | None:
    """The demand that `parts`, one after the other, were of. None where nothing was placed."""
    merged = TrafficWindow.merge_windows(parts)
    placed = merged.uncached.count
    if not placed or not merged.span_s:
        return None
    output = merged.output_tokens / merged.answers if merged.answers else 0.0
    return TrafficDemand(
        requests_per_s=merged.requests / merged.span_s,
        uncached_tokens=merged.uncached.mean,
        long_tokens=merged.uncached.find_percentile(percentile) or 0.0,
        variability=merged.uncached.variability,
        burstiness=_burstiness([part.requests for part in parts]),
        pairs=merged.pairs / placed,
        context_tokens=merged.prompt_tokens / placed + output / 2,
        output_tokens=output,
    )


def _burstiness(counts: Sequence[int]) -> float:
    mean = fmean(counts)
    low, high = _BURSTINESS
    return min(high, max(low, pvariance(counts) / mean)) if mean and len(counts) > 1 else low


OTHER = "default"
"""Stands for all models that no worker names."""


class TrafficObserver:
    """Counts arrivals and results by model, around the dispatch. Belongs to one event loop."""

    def __init__(self, dispatch: Next, registry: WorkerRegistry) -> None:
        self._dispatch = dispatch
        self._registry = registry
        self._traffic: defaultdict[str, TrafficWindow] = defaultdict(TrafficWindow)
        self._inside: defaultdict[str, int] = defaultdict(int)

    def __call__(self, request: Request) -> Awaitable[Reply]:
        """Dispatch `request` and count it."""
        return self._dispatch_observed(request, self._known_model(request))

    def count_inflight(self, model: str) -> int:
        """Requests that wait for a worker or for its first token."""
        return self._inside[model]

    def take_window(self, model: str, span_s: float) -> TrafficWindow:
        """Take the counts of `model` since the last call, `span_s` seconds ago."""
        traffic = self._traffic.pop(model, None) or TrafficWindow()
        traffic.span_s = span_s
        return traffic

    async def _dispatch_observed(self, request: Request, model: str) -> Reply:
        if not request.routing.failed_workers:
            self._traffic[model].on_arrival()
        self._inside[model] += 1
        try:
            reply = await self._dispatch(request)
        finally:
            self._inside[model] -= 1
        if reply.status != 200:
            return reply
        journal = request.journal
        first_s = None if reply.chunks is None else journal.elapsed_s()
        if first_s is not None:
            self._traffic[model].on_first_token(first_s)
        choice = _find_choice(request)

        def ended(used: TokenUsage) -> None:
            traffic = self._traffic[model]
            if used.prompt_tokens:
                traffic.on_placed(used.prompt_tokens, used.prompt_tokens - used.cached_tokens)
            elif choice is not None and choice.request.tokens:
                traffic.on_placed(choice.request.tokens, choice.request.tokens - choice.cached_tokens)
            decode_s = None if first_s is None else journal.elapsed_s() - first_s
            traffic.on_finished(used.completion_tokens, decode_s)

        on_usage(request, reply, ended)
        return reply

    def _known_model(self, request: Request) -> str:
        """Return the requested model if a worker serves it, so that invented names do not count."""
        model = request.model
        if model is None or model == ANY_MODEL:
            ready = self._registry.candidates(None)
            return ready[0].models[0] if ready and ready[0].models else OTHER
        return model if any(model in worker.models for worker in self._registry.candidates(model)) else OTHER


def _find_choice(request: Request) -> WorkerChoice | None:
    for _, _, detail in reversed(request.journal.entries):
        if isinstance(detail, PairChoice):
            return detail.answers
        if isinstance(detail, WorkerChoice):
            return detail
    return None
