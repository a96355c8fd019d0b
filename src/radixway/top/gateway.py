"""A gateway as its HTTP API shows it: one look at metrics, workers and the latest requests."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Annotated, Any, TypeVar
from urllib.parse import quote

import msgspec

from radixway.client import CallFailed, call, fetch
from radixway.telemetry import NotMetrics, Scrape

MOST_REQUESTS = 50
"""Of the latest ones."""

_REFUSED = (401, 403, 404)
"""What a part that is closed to us answers; the rest can be shown all the same."""

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
    """A finished request, of `/requests`. What nobody knows of it is None."""

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

    def words(self) -> list[str]:
        """What a filter looks at."""
        named = (self.id, self.asked, self.model, self.tenant, self.worker, self.error, *self.flags)
        return [str(self.status), *(name for name in named if name is not None)]


class _Workers(msgspec.Struct):
    workers: list[SeenWorker]


class _Requests(msgspec.Struct):
    requests: list[SeenRequest]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a part is not shown."""

    why: str


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one time."""

    scrape: Scrape
    workers: list[SeenWorker] | Refusal
    requests: list[SeenRequest] | Refusal


class Reader:
    """Asks one gateway, with a key where it has one."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = url.rstrip("/")
        self._key = key

    async def look(self) -> Look:
        """Everything at once. Raises CallFailed where no gateway answers, or none that shows its metrics."""
        text, workers, requests = await asyncio.gather(
            self._metrics(),
            self._part("/list_workers", _Workers),
            self._part(f"/requests?limit={MOST_REQUESTS}", _Requests),
        )
        try:
            scrape = Scrape.read(text.decode(), monotonic())
        except (NotMetrics, UnicodeDecodeError) as error:
            raise CallFailed(f"what answers at {self.url} is no gateway: {error}") from None
        return Look(
            scrape,
            workers if isinstance(workers, Refusal) else workers.workers,
            requests if isinstance(requests, Refusal) else requests.requests,
        )

    async def drain(self, worker: str) -> None:
        """Send a worker nothing new. Raises CallFailed."""
        await call(self.url, "POST", "/drain_worker", dict[str, Any], {"url": worker}, self._key)

    async def resume(self, worker: str) -> None:
        """Send it requests again. Raises CallFailed."""
        await call(self.url, "POST", "/add_worker", dict[str, Any], {"url": worker}, self._key)

    async def explain(self, request_id: str) -> dict[str, Any]:
        """A request's journal. Raises CallFailed."""
        return await call(
            self.url, "GET", f"/explain/{quote(request_id, safe='')}", dict[str, Any], key=self._key
        )

    async def _metrics(self) -> bytes:
        try:
            return await fetch(self.url, "GET", "/metrics/prometheus", key=self._key)
        except CallFailed as error:
            if error.status in _REFUSED:
                message = (
                    "its metrics need a key: --key, with the admin key or one of the scope metrics or admin"
                )
                raise CallFailed(message, error.status) from None
            raise

    async def _part(self, path: str, shape: type[AnswerT]) -> AnswerT | Refusal:
        try:
            return await call(self.url, "GET", path, shape, key=self._key)
        except CallFailed as error:
            if error.status in _REFUSED:
                return Refusal(str(error))
            raise
