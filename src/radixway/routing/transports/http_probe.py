"""Ask a worker how it is and what it serves, in the dialects of the common engines."""

from __future__ import annotations

from typing import Any

import aiohttp
import msgspec

from radixway.core.config import Role
from radixway.core.http import LoopDetectedError
from radixway.routing import ProbeError, ServerInfo, Worker, parse_version
from radixway.routing.kv_events import PublisherUnreachableError, read_publisher_config
from radixway.routing.transports.http_transport import HttpTransport
from radixway.routing.transports.worker_responses import (
    ResponseTooLargeError,
    explain_connection_error,
    read_bounded,
)


class HttpProbe:
    """`/health` where there is one, `/v1/models` otherwise; capacity, KV events from `/server_info`.

    Where its tokenizer lies is said there too, and in vLLM's `root` of a model; adapters have a `parent`.
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
        adapters = {}
        status, listing = await self._fetch_json(worker, "/v1/models")
        if status == 200 and isinstance(listing, dict) and isinstance(listing.get("data"), list):
            entries = [entry for entry in listing["data"] if isinstance(entry, dict)]
            entries = [entry for entry in entries if isinstance(entry.get("id"), str)]
            models = tuple(entry["id"] for entry in entries)
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
            tokenizer_path=_nonempty_text(info.get("tokenizer_path"))
            or _nonempty_text(info.get("model_path"))
            or _nonempty_text(root),
            tokenizes=status == 405,  # it is there, for POST
            engine=_nonempty_text(info.get("engine")),
            weight_version=await self._fetch_weight_version(worker, info),
            role=_engine_role(info),
            bootstrap_port=_positive_int(info.get("disaggregation_bootstrap_port")),
        )

    async def _fetch_weight_version(self, worker: Worker, info: dict[str, Any]) -> str | None:
        """Where SGLang says it, newer versions first; None where nobody does."""
        version = parse_version(info.get("weight_version"))
        for path in ("/model_info", "/get_weight_version"):
            if version is not None:
                break
            status, said = await self._fetch_json(worker, path)
            if status == 200 and isinstance(said, dict):
                version = parse_version(said.get("weight_version"))
        return version

    async def _fetch_json(self, worker: Worker, path: str) -> tuple[int, Any]:
        headers = {"authorization": f"Bearer {worker.api_key}"} if worker.api_key else None
        try:
            async with self._transport.session.get(
                worker.url + path, headers=headers, timeout=self._timeout, allow_redirects=False
            ) as response:
                body = await read_bounded(response)
        except (aiohttp.ClientError, TimeoutError, OSError, ResponseTooLargeError) as error:
            kind, why = explain_connection_error(error, self._timeout.total)
            raise ProbeError(f"{path}: {why}", kind) from error
        try:
            return response.status, msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return response.status, None


def _nonempty_text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _positive_int(value: Any) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _engine_role(info: dict[str, Any]) -> Role:
    """What a worker was started for: our engine tells it under SGLang's name."""
    match info.get("disaggregation_mode"):
        case "prefill":
            return "prefill"
        case "decode":
            return "decode"
        case _:
            return "any"
