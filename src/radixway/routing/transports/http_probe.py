"""Ask workers how they are, what they serve and what their own metrics say, in common engines' dialects."""

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Any

import aiohttp
import msgspec

from radixway.core.config import Role
from radixway.core.http import LoopDetectedError
from radixway.routing import EngineMetrics, Worker, WorkerRegistry, WorkerState, parse_version
from radixway.routing.engine_metrics import parse_engine_metrics
from radixway.routing.health_monitor import ProbeError
from radixway.routing.kv_events import PublisherUnreachableError, read_publisher_config
from radixway.routing.transports.http_transport import HttpTransport
from radixway.routing.transports.worker_responses import CALL_ERRORS, explain_connection_error
from radixway.routing.worker import ModelCard, ServerInfo


class HttpProbe:
    """`/health` where there is one, `/v1/models` otherwise; capacity, KV events from `/server_info`.

    The tokenizer's path is there too, or in vLLM's `root` of a model; adapters have a `parent`.
    """

    def __init__(self, transport: HttpTransport, timeout_s: float) -> None:
        self._transport = transport
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def check(self, worker: Worker) -> None:
        status, _ = await self._fetch_json(worker, "/health")
        if status in (404, 405, 501):  # llama-cpp-python and others have no /health
            status, _ = await self._fetch_json(worker, "/v1/models")
        if status == LoopDetectedError.status:
            raise ProbeError("it is this gateway itself, directly or through others")
        if status not in (200, 204):
            raise ProbeError(f"its health check answered {status}")

    async def describe(self, worker: Worker) -> ServerInfo:
        models = root = None
        adapters, cards = {}, {}
        status, listing = await self._fetch_json(worker, "/v1/models")
        if status == 200 and isinstance(listing, dict) and isinstance(listing.get("data"), list):
            entries = [entry for entry in listing["data"] if isinstance(entry, dict)]
            entries = [entry for entry in entries if isinstance(entry.get("id"), str)]
            models = tuple(entry["id"] for entry in entries)
            cards = {entry["id"]: _read_card(entry) for entry in entries}
            adapters = {e["id"]: e["parent"] for e in entries if isinstance(e.get("parent"), str)}
            root = next((entry.get("root") for entry in entries if entry["id"] not in adapters), None)
        status, info = await self._fetch_json(worker, "/server_info")
        if status != 200 or not isinstance(info, dict):
            info = {}
        try:
            kv_events, problem = read_publisher_config(info, worker.url), None
        except PublisherUnreachableError as error:
            kv_events, problem = None, str(error)
        status, _ = await self._fetch_json(worker, "/tokenize")
        return ServerInfo(
            models=models,
            kv_tokens=_positive_int(info.get("max_total_num_tokens")),
            max_batch_size=_positive_int(info.get("max_running_requests")),
            kv_events=kv_events,
            kv_events_problem=problem,
            adapters=adapters,
            cards=cards,
            tokenizer_path=_nonempty_text(info.get("tokenizer_path"))
            or _nonempty_text(info.get("model_path"))
            or _nonempty_text(root),
            tokenizes=status == 405,  # it exists, for POST
            engine=_nonempty_text(info.get("engine")),
            weight_version=await self._fetch_weight_version(worker, info),
            role=_engine_role(info),
            bootstrap_port=_positive_int(info.get("disaggregation_bootstrap_port")),
        )

    async def _fetch_weight_version(self, worker: Worker, info: dict[str, Any]) -> str | None:
        """Return the weight version from SGLang's endpoints, newest first, or None."""
        version = parse_version(info.get("weight_version"))
        for path in ("/model_info", "/get_weight_version"):
            if version is not None:
                break
            status, body = await self._fetch_json(worker, path)
            if status == 200 and isinstance(body, dict):
                version = parse_version(body.get("weight_version"))
        return version

    async def _fetch_json(self, worker: Worker, path: str) -> tuple[int, Any]:
        try:
            status, _, body = await self._transport.exchange(worker, "GET", path, limits=self._timeout)
        except CALL_ERRORS as error:
            kind, why = explain_connection_error(error, self._timeout.total)
            raise ProbeError(f"{path}: {why}", kind) from error
        try:
            return status, msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return status, None


def _read_card(entry: dict[str, Any]) -> ModelCard:
    return ModelCard(_nonempty_text(entry.get("root")), _positive_int(entry.get("max_model_len")), entry)


def _nonempty_text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _positive_int(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _engine_role(info: dict[str, Any]) -> Role:
    """Return a worker's role; our engine reports it under SGLang's name."""
    match info.get("disaggregation_mode"):
        case "prefill":
            return "prefill"
        case "decode":
            return "decode"
        case _:
            return "any"


_GOOD_FOR_S = 2.0
_TIMEOUT = aiohttp.ClientTimeout(total=1.0)
_MAX_PAGE_BYTES = 1 << 21
"""Engines' pages have some tens of kilobytes."""
_ANSWERING = frozenset({WorkerState.READY, WorkerState.STALE, WorkerState.DRAINING})


class EngineMetricsPoller:
    """Keeps `Worker.report`. Belongs to one event loop."""

    def __init__(
        self, registry: WorkerRegistry, transport: HttpTransport, clock: Callable[[], float] = monotonic
    ) -> None:
        self._registry = registry
        self._transport = transport
        self._clock = clock
        self._polled_at = -_GOOD_FOR_S
        self._asking = asyncio.Lock()

    async def poll_workers(self) -> None:
        """Read the metrics of all ready workers, unless they are recent. A late worker's are left out."""
        async with self._asking:
            if self._clock() < self._polled_at + _GOOD_FOR_S:
                return
            workers = list(self._registry)
            calls = {
                asyncio.create_task(self._fetch_metrics(worker)): worker
                for worker in workers
                if worker.state in _ANSWERING
            }
            done, late = await asyncio.wait(calls, timeout=_TIMEOUT.total) if calls else (set(), set())
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
            reports = {calls[task]: task.result() for task in done}
            for worker in workers:
                worker.report = reports.get(worker)
            self._polled_at = self._clock()

    async def _fetch_metrics(self, worker: Worker) -> EngineMetrics | None:
        try:
            status, _, page = await self._transport.exchange(
                worker, "GET", "/metrics", limits=_TIMEOUT, max_bytes=_MAX_PAGE_BYTES
            )
        except CALL_ERRORS:
            return None
        return parse_engine_metrics(page) if status == 200 else None
