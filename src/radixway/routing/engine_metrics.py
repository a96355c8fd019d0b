"""Parses a worker's own `/metrics` for load and cache, by the names that common engines use."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

_RUNNING = (
    "radixway_engine_requests_running",
    "vllm:num_requests_running",
    "sglang:num_running_reqs",
    "tgi_batch_current_size",
    "llamacpp:requests_processing",
)
_WAITING = (
    "radixway_engine_requests_waiting",
    "vllm:num_requests_waiting",
    "sglang:num_queue_reqs",
    "tgi_queue_size",
    "llamacpp:requests_deferred",
)
_KV_USAGE = (
    "radixway_engine_kv_usage_ratio",
    "vllm:kv_cache_usage_perc",  # a share of 1, whatever its name says
    "vllm:gpu_cache_usage_perc",
    "sglang:token_usage",
    "llamacpp:kv_cache_usage_ratio",
)
_TIER, _TIER_CACHED = "radixway_engine_tier_tokens", "radixway_engine_tier_cached_tokens"
_GPU = "radixway_engine_gpu_utilisation_ratio"

_NAMES = (*_RUNNING, *_WAITING, *_KV_USAGE, _TIER, _TIER_CACHED, _GPU)
_LINE = re.compile(
    rb"^(%b)(?:\{(.*)\})?[ \t]+(\S+)" % b"|".join(re.escape(name.encode()) for name in _NAMES), re.MULTILINE
)
_PART = re.compile(rb'(?:^|,)(tier|gpu)="([a-z0-9_-]{1,32})"')
"""Matches the label of a worker's tiers or GPUs; other values are not passed on."""
_CACHE_CONFIG = re.compile(rb"^vllm:cache_config_info\{(.*)\}[ \t]", re.MULTILINE)
_COUNT = re.compile(rb'(?:^|,)([a-z_]+)="(\d{1,15})"')
_ENGINE = re.compile(rb'(?:^|,)engine="([^"]*)"')
_MAX_ENGINES = 64
_MAX_VALUE = 1e15
"""Larger samples are dropped, so that sums stay finite."""


@dataclass(slots=True, frozen=True)
class EngineMetrics:
    """Figures of one worker. None or empty where its engine does not report them."""

    kv_usage: float | None = None
    """Share of its KV cache that running requests hold."""
    running: float | None = None
    """Requests in its batch."""
    waiting: float | None = None
    tier_tokens: Mapping[str, float] = field(default_factory=dict)
    tier_cached_tokens: Mapping[str, float] = field(default_factory=dict)
    gpu_utilisation: Mapping[str, float] = field(default_factory=dict)
    """How busy each of its GPUs is, 0 to 1."""


def parse_engine_metrics(page: bytes) -> EngineMetrics:
    """Parse `page`, the body of `/metrics`. Engines behind one address add up; shares average."""
    found: dict[str, list[float]] = {}
    parts: dict[str, dict[str, float]] = {}
    for name, labels, written in _LINE.findall(page):
        try:
            value = float(written)
        except ValueError:
            continue
        if not 0 <= value <= _MAX_VALUE:  # nor is NaN
            continue
        family = name.decode()
        if family in (_TIER, _TIER_CACHED, _GPU):
            part = _PART.search(labels)
            if part is not None and len(known := parts.setdefault(family, {})) < _MAX_ENGINES:
                known[part[2].decode()] = value
        else:
            found.setdefault(family, []).append(value)
    running, waiting, shares = (
        next((found[name] for name in names if name in found), None)
        for names in (_RUNNING, _WAITING, _KV_USAGE)
    )
    return EngineMetrics(
        None if shares is None else min(1.0, fmean(shares)),
        None if running is None else sum(running),
        None if waiting is None else sum(waiting),
        parts.get(_TIER, {}),
        parts.get(_TIER_CACHED, {}),
        {gpu: min(1.0, share) for gpu, share in parts.get(_GPU, {}).items()},
    )


class CacheSize(NamedTuple):
    """Tokens of a worker's KV cache and of a block of it. None where its engine does not report them."""

    kv_tokens: int | None = None
    block_tokens: int | None = None


def parse_cache_size(page: bytes) -> CacheSize:
    """Parse `page`, the body of vLLM's `/metrics`. Engines behind one address add up."""
    sizes: dict[bytes, CacheSize] = {}
    for labels in _CACHE_CONFIG.findall(page):
        engine = _ENGINE.search(labels)
        counts = {name: int(digits) for name, digits in _COUNT.findall(labels)}
        block = counts.get(b"block_size", 0)
        kv_tokens = counts.get(b"kv_cache_size_tokens", 0) or counts.get(b"num_gpu_blocks", 0) * block
        reused = counts.get(b"cache_hit_alignment_tokens", 0) or block
        sizes[engine[1] if engine else b""] = CacheSize(kv_tokens, reused)
    return CacheSize(
        sum(size.kv_tokens or 0 for size in sizes.values()) or None,
        max((size.block_tokens or 0 for size in sizes.values()), default=0) or None,
    )
