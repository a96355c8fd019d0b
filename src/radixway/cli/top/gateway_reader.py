"""Reads a gateway over its HTTP API: metrics, workers and the latest requests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import msgspec

from radixway.core.http.gateway_client import GatewayCallError, call_gateway, fetch_bytes
from radixway.core.telemetry import InvalidMetricsError, MetricsScrape

MOST_REQUESTS = 50
"""Of the latest ones."""

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
    """One reading of a gateway."""

    scrape: MetricsScrape
    workers: list[SeenWorker] | PartUnavailable
    requests: list[SeenRequest] | PartUnavailable


class GatewayReader:
    """Reads one gateway, with an admin key where one is given."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._key = key

    async def read_sample(self) -> GatewaySample:
        """Everything at once. Raises GatewayCallError where no gateway answers, or none that shows its
        metrics.
        """
        text, workers, requests = await asyncio.gather(
            self._fetch_metrics(),
            self._fetch_part("/list_workers", _Workers),
            self._fetch_part(f"/requests?limit={MOST_REQUESTS}", _Requests),
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
        await call_gateway(self.url, "POST", "/add_worker", dict[str, Any], {"url": worker}, self._key)

    async def fetch_explanation(self, request_id: str) -> dict[str, Any]:
        """Return the journal of `request_id`. Raises GatewayCallError."""
        return await call_gateway(
            self.url, "GET", f"/explain/{quote(request_id, safe='')}", dict[str, Any], key=self._key
        )

    async def _fetch_metrics(self) -> bytes:
        try:
            return await fetch_bytes(self.url, "GET", "/metrics/prometheus", key=self._key)
        except GatewayCallError as error:
            if error.status in _REFUSED:
                message = (
                    "its metrics need a key: --key, with the admin key or one of the scope metrics or admin"
                )
                raise GatewayCallError(message, error.status) from None
            raise

    async def _fetch_part(self, path: str, shape: type[AnswerT]) -> AnswerT | PartUnavailable:
        try:
            return await call_gateway(self.url, "GET", path, shape, key=self._key)
        except GatewayCallError as error:
            if error.status in _REFUSED:
                return PartUnavailable(str(error))
            raise
