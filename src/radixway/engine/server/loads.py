"""GET /v1/loads: SGLang's account of how busy an engine is, which rollouts poll until it is idle."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec

from radixway._version import __version__
from radixway.core.http import BadBodyError, decode_query
from radixway.engine.engine_info import EngineStats
from radixway.engine.server.engine_service import EngineService
from radixway.engine.server.http_exchange import HttpExchange
from radixway.engine.server.metrics import kv_usage_ratio

_encode = msgspec.json.Encoder().encode


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
    sections = _read_sections(query.include)
    stats = service.engine.stats()
    load = _load_fields(service, stats) | {
        name: make(service, stats)
        for section, (name, make) in _SECTIONS.items()
        if sections is None or section in sections
    }
    reply = {
        "timestamp": datetime.now(UTC).isoformat(),
        "version": __version__,
        "dp_rank_count": 1,
        "loads": [load] if query.dp_rank in (None, 0) else [],
    }
    await exchange.send_json(_encode(reply))


def _read_sections(include: str | None) -> set[str] | None:
    """The sections that are asked for; None: all. Raises BadBodyError (400) for one that does not exist."""
    if not include:
        return None
    asked = {name.strip() for name in include.split(",")}
    if unknown := asked - _SECTIONS.keys() - _ABSENT_SECTIONS - {"core", "all"}:
        known = ", ".join(sorted({"core", "all", *_SECTIONS, *_ABSENT_SECTIONS}))
        message = f"include: there is no section {min(unknown)!r}; there are {known}"
        raise BadBodyError(message, param="include", code="invalid_value")
    return None if "all" in asked else asked


def _load_fields(service: EngineService, stats: EngineStats) -> dict[str, Any]:
    return {
        "dp_rank": 0,
        "timestamp": time.time(),
        "num_running_reqs": stats.running,
        "num_waiting_reqs": stats.waiting + stats.loading,
        "num_used_tokens": stats.kv_used,
        "max_total_num_tokens": stats.kv_total,
        "max_running_requests": service.config.max_running,
        "token_usage": kv_usage_ratio(stats),
        "cache_hit_rate": stats.cached_tokens / stats.prompt_tokens if stats.prompt_tokens else 0.0,
    }


def _disaggregation_fields(service: EngineService, stats: EngineStats) -> dict[str, Any]:
    mode = service.config.disaggregation_mode
    return {
        "mode": mode,
        "prefill_inflight_queue_reqs": stats.departing,
        "decode_transfer_queue_reqs": stats.loading if mode == "decode" else 0,
    }


def _queue_fields(service: EngineService, stats: EngineStats) -> dict[str, Any]:
    """Requests that are preempted or retracted stand in the queue again; grammars have none of their own."""
    return {"waiting": stats.waiting, "grammar": 0, "paused": 0, "retracted": 0}


_SECTIONS: dict[str, tuple[str, Callable[[EngineService, EngineStats], dict[str, Any]]]] = {
    "disagg": ("disaggregation", _disaggregation_fields),
    "queues": ("queues", _queue_fields),
}
"""By its name in `include`: its name in the answer, and what makes it."""
_ABSENT_SECTIONS = frozenset({"memory", "spec", "lora"})
"""SGLang leaves these out, too, where there is nothing to tell."""
