"""Ask workers how they are, what they serve and what their own metrics say, in common engines' dialects."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from time import monotonic
from typing import Any

import aiohttp
import msgspec

from radixway.core.config import CredentialMissingError, Role
from radixway.core.http import LoopDetectedError
from radixway.core.net.connection_errors import explain_connection_error
from radixway.routing import EngineMetrics, Worker, WorkerRegistry, WorkerState, parse_version
from radixway.routing.engine_metrics import CacheSize, parse_cache_size, parse_engine_metrics
from radixway.routing.health_monitor import ProbeError
from radixway.routing.kv_events import PublisherUnreachableError, read_publisher_config
from radixway.routing.transports.http_transport import HttpTransport
from radixway.routing.transports.worker_responses import CALL_ERRORS
from radixway.routing.worker import ModelCard, ServerInfo

_MAX_PAGE_BYTES = 1 << 21
"""Engines' pages have some tens of kilobytes."""


class HttpProbe:
    """`/health` where there is one, `/v1/models` otherwise; capacity, KV events from `/server_info`.

    The tokenizer's path is there too, or in vLLM's `root` of a model; adapters have a `parent`. vLLM's
    capacity is in its `/metrics`. Of these pages only the model list has to come: without `/server_info` what
    it said before counts.
    """

    def __init__(self, transport: HttpTransport, timeout_s: float) -> None:
        self._transport = transport
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)

    async def check(self, worker: Worker) -> None:
        if worker.hosted is not None:
            _check_hosted(worker)
            return
        status, _ = await self._fetch_page(worker, "/health")
        if status in (404, 405, 501):  # llama-cpp-python and others have no /health
            status, _ = await self._fetch_page(worker, "/v1/models")
        if status == LoopDetectedError.status:
            raise ProbeError("it is this gateway itself, directly or through others")
        if status not in (200, 204):
            raise ProbeError(f"its health check answered {status}")

    async def describe(self, worker: Worker) -> ServerInfo:
        if worker.hosted is not None:
            return worker.info
        models = root = None
        adapters, cards = {}, {}
        status, page = await self._fetch_page(worker, "/v1/models")
        listing = _decode_object(page) if status == 200 else {}
        if isinstance(listing.get("data"), list):
            entries = [entry for entry in listing["data"] if isinstance(entry, dict)]
            entries = [entry for entry in entries if isinstance(entry.get("id"), str)]
            models = tuple(entry["id"] for entry in entries)
            cards = {entry["id"]: _read_card(entry) for entry in entries}
            adapters = {e["id"]: e["parent"] for e in entries if isinstance(e.get("parent"), str)}
            root = next((entry.get("root") for entry in entries if entry["id"] not in adapters), None)
        told = await self._fetch_optional(worker, "/server_info")
        info = {} if told is None else _decode_object(told[1]) if told[0] == 200 else {}
        findings = worker.info if told is None else _parse_server_info(info, worker.url)
        size = CacheSize(findings.kv_tokens, findings.block_tokens)
        if size.kv_tokens is None:
            metrics = await self._fetch_optional(worker, "/metrics")
            if metrics is not None and metrics[0] == 200:
                learnt = parse_cache_size(metrics[1])
                size = CacheSize(learnt.kv_tokens, learnt.block_tokens or size.block_tokens)
        tokenize = await self._fetch_optional(worker, "/tokenize")
        return replace(
            findings,
            models=models,
            kv_tokens=size.kv_tokens,
            block_tokens=size.block_tokens,
            adapters=adapters,
            cards=cards,
            tokenizer_path=findings.tokenizer_path or _nonempty_text(root),
            # where it exists, it is for POST
            tokenizes=worker.info.tokenizes if tokenize is None else tokenize[0] == 405,
            weight_version=await self._fetch_weight_version(worker, info),
        )

    async def _fetch_weight_version(self, worker: Worker, info: dict[str, Any]) -> str | None:
        """Return the weight version from SGLang's endpoints, newest first, or None."""
        version = parse_version(info.get("weight_version"))
        for path in ("/model_info", "/get_weight_version"):
            if version is not None:
                break
            page = await self._fetch_optional(worker, path)
            if page is not None and page[0] == 200:
                version = parse_version(_decode_object(page[1]).get("weight_version"))
        return version

    async def _fetch_optional(self, worker: Worker, path: str) -> tuple[int, bytes] | None:
        """Return what the worker answers, or None: some pages take long where an engine is busy."""
        try:
            return await self._fetch_page(worker, path)
        except ProbeError:
            return None

    async def _fetch_page(self, worker: Worker, path: str) -> tuple[int, bytes]:
        try:
            status, _, body = await self._transport.exchange(
                worker, "GET", path, limits=self._timeout, max_bytes=_MAX_PAGE_BYTES
            )
        except CALL_ERRORS as error:
            kind, why = explain_connection_error(error, self._timeout.total)
            raise ProbeError(f"{path}: {why}", kind) from error
        return status, body


def _check_hosted(worker: Worker) -> None:
    """Check a hosted worker without a call, which would cost money. Raises ProbeError."""
    assert worker.hosted is not None
    try:
        worker.hosted.read_key()
    except CredentialMissingError as error:
        raise ProbeError(str(error), "misconfigured") from None
    if worker.refused_until > monotonic():
        raise ProbeError(worker.last_error or "the provider refuses its key", "misconfigured")


def _decode_object(body: bytes) -> dict[str, Any]:
    """Return the JSON object that `body` is; {} if it is none."""
    try:
        decoded = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _parse_server_info(info: dict[str, Any], worker_url: str) -> ServerInfo:
    try:
        kv_events, problem = read_publisher_config(info, worker_url), None
    except PublisherUnreachableError as error:
        kv_events, problem = None, str(error)
    return ServerInfo(
        kv_tokens=_positive_int(info.get("max_total_num_tokens")),
        block_tokens=_positive_int(info.get("page_size")),
        max_batch_size=_positive_int(info.get("max_running_requests")),
        kv_events=kv_events,
        kv_events_problem=problem,
        tokenizer_path=_nonempty_text(info.get("tokenizer_path")) or _nonempty_text(info.get("model_path")),
        engine=_nonempty_text(info.get("engine")),
        role=_engine_role(info),
        bootstrap_port=_positive_int(info.get("disaggregation_bootstrap_port")),
    )


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
