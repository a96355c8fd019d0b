"""Health, models, metrics, cache and abort: the server's state, and the operator's calls."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec

from radixway._version import __version__
from radixway.core.http import BadBodyError, HttpError, decode_query
from radixway.engine.sampling_params import SamplingParams
from radixway.engine.server.engine_service import EngineService, GenerationJob
from radixway.engine.server.http_exchange import HttpExchange


class AbortBody(msgspec.Struct):
    """The body of /abort_request."""

    rid: str | None = None
    abort_all: bool = False


async def health(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """The process is alive and its engine runs."""
    service.engine.stats()  # raises EngineStoppedError
    await exchange.send_json({"status": "ok"})


async def ready(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """New requests are welcome."""
    service.engine.stats()  # raises EngineStoppedError
    if service.draining:
        raise HttpError("the server is shutting down", status=503, code="draining")
    await exchange.send_json({"status": "ready"})


async def is_sleeping(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """vLLM's question whether weights have left the device: this engine never sleeps."""
    await exchange.send_json({"is_sleeping": False})


async def health_generate(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """The model really answers: one token is generated, unless generation is paused."""
    if service.engine.stats().paused:
        await exchange.send_json({"status": "paused"})
        return
    params = SamplingParams(max_tokens=1, temperature=0, ignore_eos=True)
    job = GenerationJob([0], params, exchange.request_id)
    async with service.start_generations(exchange, [job]) as answers:
        await answers.gather_outputs()
    await exchange.send_json({"status": "ok"})


async def models(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """The names that requests may ask for."""
    await exchange.send_json({"object": "list", "data": [_model_card(service, n) for n in service.names]})


async def model(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """Describe a model, by the rest of the path."""
    name = exchange.path.removeprefix("/v1/models/")
    service.check_model(name)
    await exchange.send_json(_model_card(service, name if name in service.names else service.names[0]))


def _model_card(service: EngineService, name: str) -> dict[str, Any]:
    info = service.engine.model_info
    return {
        "id": name,
        "object": "model",
        "created": service.started_at,
        "owned_by": "radixway",
        "root": service.names[0],
        "parent": None,
        "max_model_len": info.context_length,
    }


async def version(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """The version of this server."""
    await exchange.send_json({"version": __version__})


async def server_load(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """How many answers are being made or waited for, as vLLM counts them."""
    stats = service.engine.stats()
    await exchange.send_json({"server_load": stats.running + stats.waiting + stats.loading})


async def model_info(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """SGLang's description of the model."""
    info = service.engine.model_info
    reply = {
        "model_path": info.path,
        "tokenizer_path": service.tokenizer_path,
        "served_model_name": service.names[0],
        "is_generation": True,
        "weight_version": info.weight_version,
        "architectures": [info.architecture],
        "vocab_size": info.vocab_size,
        "context_length": info.context_length,
        "parameters": info.parameters,
        "has_image_understanding": False,
        "has_audio_understanding": False,
    }
    await exchange.send_json(reply)


async def server_info(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """The engine's configuration and load: SGLang's keys, and ours."""
    info, stats, config = service.engine.model_info, service.engine.stats(), service.config
    reply = {
        "engine": "radixway",
        "version": __version__,
        "model_path": info.path,
        "tokenizer_path": service.tokenizer_path,
        "served_model_name": service.names[0],
        "weight_version": info.weight_version,
        "device": info.device,
        "dtype": info.dtype,
        "context_length": info.context_length,
        "page_size": config.page_size,
        "kv_cache_dtype": config.kv_cache_dtype,
        "quantization": config.quantization,
        "max_total_num_tokens": stats.kv_total,
        "max_running_requests": config.max_running,
        "max_running": config.max_running,
        "max_queued_requests": config.max_queued,
        "schedule_policy": config.schedule,
        "eviction_policy": config.eviction,
        "disable_radix_cache": not config.radix_cache,
        "kv_usage": stats.kv_usage,
        "running": stats.running,
        "loading": stats.loading,
        "waiting": stats.waiting,
        "draining": service.draining,
        "paused": stats.paused,
        "kv_events": service.engine.kv_events,
        "disaggregation_mode": config.disaggregation_mode,
        "disaggregation_bootstrap_port": service.engine.bootstrap_port,
        "stats": stats,
    }
    await exchange.send_json(reply)


async def metrics(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """Prometheus text."""
    content_type = b"text/plain; version=0.0.4; charset=utf-8"
    service.metrics.gpu_utilisation = await service.gpu.read_utilisation()
    await exchange.send_whole(service.metrics.render_metrics(), content_type=content_type)


class _PrefixesQuery(msgspec.Struct, forbid_unknown_fields=True):
    most: Annotated[int, msgspec.Meta(ge=1, le=2000)] = 200
    levels: Annotated[int, msgspec.Meta(ge=1, le=64)] = 16


async def cached_prefixes(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """The hottest prefixes in the radix cache: lengths and uses, no tokens."""
    query = decode_query(exchange.query, _PrefixesQuery)
    prefixes = await asyncio.to_thread(service.engine.cached_prefixes, query.most, query.levels)
    stats = service.engine.stats()
    await exchange.send_json({"tokens": stats.kv_total, "prefixes": prefixes})


async def flush_cache(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """Drop every cached prefix, unless requests are using them."""
    if not await asyncio.to_thread(service.engine.flush_cache):
        raise BadBodyError("the cache is in use: requests are running", code="cache_in_use")
    await exchange.send_json({"success": True, "message": "the cache is empty"})


async def abort_request(service: EngineService, exchange: HttpExchange, body: AbortBody) -> None:
    """End a request by its id (`rid`, or the `x-request-id` it came with), or all of them."""
    if not body.rid and not body.abort_all:
        raise BadBodyError("give rid, or abort_all: true", param="rid", code="missing_field")
    aborted = service.abort_all_requests() if body.abort_all else service.abort_request(body.rid or "")
    await exchange.send_json({"success": True, "aborted": aborted})


async def rank_loads(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """SGLang's older form of /v1/loads: a list with an entry for each rank."""
    stats = service.engine.stats()
    waiting = stats.waiting + stats.loading
    load = {
        "dp_rank": 0,
        "num_reqs": stats.running + waiting,
        "num_waiting_reqs": waiting,
        "num_tokens": stats.kv_used,
    }
    await exchange.send_json([load])


class LoadsQuery(msgspec.Struct):
    """The query of /v1/loads."""

    include: str | None = None
    """Sections, divided by commas; without it all of them. `core` is always there."""
    dp_rank: int | None = None
    """An engine of ours is rank 0, and there is no other."""
    format: Literal["json"] = "json"
    """SGLang's other one is /metrics here."""


async def loads(service: EngineService, exchange: HttpExchange, raw: bytes) -> None:
    """Requests that run and wait, and the KV cache in use, as SGLang has them by data-parallel rank."""
    query = decode_query(exchange.query, LoadsQuery)
    wanted = _read_sections(query.include)
    stats, mode = service.engine.stats(), service.config.disaggregation_mode
    load: dict[str, Any] = {
        "dp_rank": 0,
        "timestamp": time.time(),
        "num_running_reqs": stats.running,
        "num_waiting_reqs": stats.waiting + stats.loading,
        "num_used_tokens": stats.kv_used,
        "max_total_num_tokens": stats.kv_total,
        "max_running_requests": service.config.max_running,
        "token_usage": stats.kv_usage,
        "cache_hit_rate": stats.cached_tokens / stats.prompt_tokens if stats.prompt_tokens else 0.0,
    }
    if "disagg" in wanted:
        load["disaggregation"] = {
            "mode": mode,
            "prefill_inflight_queue_reqs": stats.departing,
            "decode_transfer_queue_reqs": stats.loading if mode == "decode" else 0,
        }
    if "queues" in wanted:  # what is preempted or retracted waits again; grammars have no queue of their own
        load["queues"] = {"waiting": stats.waiting, "grammar": 0, "paused": 0, "retracted": 0}
    reply = {
        "timestamp": datetime.now(UTC).isoformat(),
        "version": __version__,
        "dp_rank_count": 1,
        "loads": [load] if query.dp_rank in (None, 0) else [],
    }
    await exchange.send_json(reply)


_SECTIONS = frozenset({"all", "core", "disagg", "lora", "memory", "queues", "spec"})
"""Some are left out of the answer, as in SGLang, where there is nothing to tell."""


def _read_sections(include: str | None) -> frozenset[str]:
    sections = frozenset(name.strip() for name in (include or "all").split(","))
    if unknown := sections - _SECTIONS:
        message = f"include: there is no section {min(unknown)!r}; there are {', '.join(sorted(_SECTIONS))}"
        raise BadBodyError(message, param="include")
    return _SECTIONS if "all" in sections else sections
