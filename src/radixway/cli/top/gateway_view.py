"""What is shown of a gateway: metrics, workers and latest requests, read over its HTTP API."""

import asyncio
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import msgspec

from radixway.core.http.gateway_client import GatewayCallError, call_gateway, fetch_bytes
from radixway.core.telemetry import (
    GatewayStats,
    InvalidMetricsError,
    MetricsScrape,
    ScrapeHistory,
    WorkerStats,
    read_gateway_stats,
    read_worker_stats,
)

_MAX_REQUESTS = 50
WINDOW_S = 10.0
"""Window of rates, long enough to keep them readable."""
_MAX_POINTS = 200
"""Points that a line may have."""
_REFUSED = (401, 403, 404)
"""Status codes of a part that this key may not read; the rest is still shown."""

AnswerT = TypeVar("AnswerT")


class SeenWorker(msgspec.Struct, frozen=True):
    """A worker, of `/list_workers`."""

    name: str
    url: str
    state: str
    models: list[str] = []
    in_flight: int = 0
    in_flight_elsewhere: int = 0
    total: int = 0
    max_batch_size: int | None = None
    breaker: str = "closed"
    weight_version: str | None = None
    last_error: str | None = None


class SeenRequest(msgspec.Struct, frozen=True):
    """A finished request, of `/requests`. What is not known is None."""

    id: str
    began_at: Annotated[float, msgspec.Meta(ge=0, lt=2**37)]
    """Seconds since the epoch."""
    asked: str | None = None
    model: str | None = None
    tenant: str | None = None
    worker: str | None = None
    status: int | None = None
    error: str | None = None
    ttft_ms: float | None = None
    total_ms: float | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    flags: list[str] = []

    def search_words(self) -> list[str]:
        """Return the text that a filter searches."""
        named = (self.id, self.asked, self.model, self.tenant, self.worker, self.error, *self.flags)
        return [str(self.status), *(name for name in named if name is not None)]


class _Workers(msgspec.Struct):
    workers: list[SeenWorker]


class _Requests(msgspec.Struct):
    requests: list[SeenRequest]


@dataclass(frozen=True, slots=True)
class PartUnavailable:
    """The reason why a part is not shown."""

    why: str


@dataclass(frozen=True, slots=True)
class GatewaySample:
    """A reading of a gateway."""

    scrape: MetricsScrape
    workers: list[SeenWorker] | PartUnavailable
    requests: list[SeenRequest] | PartUnavailable


class GatewayReader:
    """Reads one gateway, with an admin key where one is given."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._key = key

    async def read_sample(self) -> GatewaySample:
        """Read everything at once. Raises GatewayCallError where no gateway answers and shows its metrics."""
        text, workers, requests = await asyncio.gather(
            self._fetch_metrics(),
            self._fetch_part("/list_workers", _Workers),
            self._fetch_part(f"/requests?limit={_MAX_REQUESTS}", _Requests),
        )
        try:
            scrape = MetricsScrape.parse_text(text.decode(), monotonic())
        except (InvalidMetricsError, UnicodeDecodeError) as error:
            raise GatewayCallError(f"what answers at {self.url} is no gateway: {error}") from None
        return GatewaySample(
            scrape,
            workers if isinstance(workers, PartUnavailable) else workers.workers,
            requests if isinstance(requests, PartUnavailable) else requests.requests,
        )

    async def drain_worker(self, worker: str) -> None:
        """Drain `worker`: it gets no new requests. Raises GatewayCallError."""
        await call_gateway(self.url, "POST", "/drain_worker", dict[str, Any], {"url": worker}, self._key)

    async def resume_worker(self, worker: str) -> None:
        """Send requests to `worker` again. Raises GatewayCallError."""
        await call_gateway(self.url, "POST", "/resume_worker", dict[str, Any], {"url": worker}, self._key)

    async def fetch_explanation(self, request_id: str) -> dict[str, Any]:
        """Return the journal of `request_id`. Raises GatewayCallError."""
        return await call_gateway(
            self.url, "GET", f"/explain/{quote(request_id, safe='')}", dict[str, Any], key=self._key
        )

    async def _fetch_metrics(self) -> bytes:
        try:
            return await fetch_bytes(self.url, "GET", "/metrics/prometheus", key=self._key)
        except GatewayCallError as error:
            if error.status not in _REFUSED:
                raise
            message = "its metrics need a key: --key, with the admin key or one of the scope metrics or admin"
            raise GatewayCallError(message, error.status) from None

    async def _fetch_part(self, path: str, shape: type[AnswerT]) -> AnswerT | PartUnavailable:
        try:
            return await call_gateway(self.url, "GET", path, shape, key=self._key)
        except GatewayCallError as error:
            if error.status in _REFUSED:
                return PartUnavailable(str(error))
            raise


class TopView:
    """The latest reading of a gateway, and rates between readings, by the clock of the readings."""

    def __init__(self, url: str, window_s: float = WINDOW_S) -> None:
        self.url = url
        self.past: deque[GatewayStats | None] = deque(maxlen=_MAX_POINTS)
        """One for each reading, None for those that failed; the newest is last."""
        self.figures: GatewayStats | None = None
        """None until there are two readings of one gateway."""
        self.worker_figures: Mapping[str, WorkerStats] = {}
        self.workers: list[SeenWorker] | PartUnavailable = []
        self.requests: list[SeenRequest] | PartUnavailable = []
        self.away: str | None = None
        """The reason why there is nothing to see; None while there is."""
        self.away_since = 0.0
        self._scrapes = ScrapeHistory(window_s)

    def add_sample(self, sample: GatewaySample) -> None:
        """Add the reading `sample`."""
        self.away = None
        self.workers, self.requests = sample.workers, sample.requests
        self._scrapes.add_scrape(sample.scrape)
        change = self._scrapes.delta_over_window()
        if change is not None:
            self.figures = read_gateway_stats(change)
            self.worker_figures = read_worker_stats(change)
            self.past.append(self.figures)

    def mark_lost(self, why: str) -> None:
        """Note that a reading failed, with `why`. The last one stays shown; rates do not span the gap."""
        if self.away is None:
            self.away_since = monotonic()
        self.away = why
        self._scrapes.forget_scrapes()
        self.past.append(None)

    def filter_workers(self, words: str) -> list[SeenWorker]:
        """Return workers whose name, state or models have all `words`; busiest first, then by name."""
        if isinstance(self.workers, PartUnavailable):
            return []
        found = (seen for seen in self.workers if _has_words(words, seen.name, seen.state, *seen.models))
        return sorted(found, key=lambda worker: (-worker.in_flight, worker.name))

    def filter_requests(self, words: str) -> list[SeenRequest]:
        """Return requests that have all `words` in what is shown of them; newest first."""
        if isinstance(self.requests, PartUnavailable):
            return []
        return [request for request in self.requests if _has_words(words, *request.search_words())]


def _has_words(words: str, *texts: str) -> bool:
    searched = " ".join(texts).lower()
    return all(word in searched for word in words.lower().split())
