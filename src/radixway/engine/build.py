"""Builds an engine core from the configuration: find the model, choose device and dtype, load, size the KV
pool, open the lower cache tiers and start KV transfer.
"""

from pathlib import Path

import torch

from radixway.bundled import SHIPPED_MODELS
from radixway.core.config.engine import EngineConfig
from radixway.core.radix import lfu, lru, priority, slru
from radixway.engine.architecture import ModelArchitecture
from radixway.engine.attention import select_attention_backend
from radixway.engine.device_info import choose_device, choose_dtype, measure_free_memory
from radixway.engine.disaggregation.decode_kv_manager import DecodeKVManager
from radixway.engine.disaggregation.prefill_kv_manager import PrefillKVManager
from radixway.engine.engine_core import EngineCore, TextFactory
from radixway.engine.engine_info import ModelInfo
from radixway.engine.errors import EngineError
from radixway.engine.hub_download import LoadProgress
from radixway.engine.kv_cache_manager import KVCacheManager
from radixway.engine.kv_events import KVEventRecorder
from radixway.engine.kv_identity import KVFingerprint, KVIdentity, digest_weight_files
from radixway.engine.kv_store import KVStore
from radixway.engine.model_loader import (
    DummyTensors,
    find_architecture,
    find_model,
    load_model,
    open_checkpoint,
)
from radixway.engine.model_runner import ModelRunner
from radixway.engine.page_pool import PagePool
from radixway.engine.scheduler import Scheduler
from radixway.engine.tiers.disk_tier import open_disk_tier
from radixway.engine.tiers.tiered_cache import TieredKVCache
from radixway.engine.transformer_model import TransformerModel

GB = 10**9

MIN_HOST_CACHE_GB = 0.25
"""Host memory for a disk tier if none is configured: pages reach the disk through it."""


def build_tiers(
    config: EngineConfig,
    path: Path,
    shape: ModelArchitecture,
    dtype: torch.dtype,
    store: KVStore,
    progress: LoadProgress,
    events: KVEventRecorder | None = None,
) -> TieredKVCache:
    """Build the host tier and, if `config` names a directory, the disk tier below `store`.

    Raises EngineError if there is too little memory.
    """
    host_bytes = int((config.host_cache_gb or min(MIN_HOST_CACHE_GB, config.disk_cache_gb)) * GB)
    slots = host_bytes // store.page_bytes
    if slots < 1:
        raise EngineError(f"host_cache_gb must hold at least one KV page, which has {store.page_bytes} bytes")
    free = measure_free_memory(torch.device("cpu"))
    if host_bytes > free:
        message = f"host_cache_gb {config.host_cache_gb:g} is more than the {free / GB:.1f} GB of free memory"
        raise EngineError(message)
    if config.disk_cache_dir is None:
        return TieredKVCache(store, slots, events=events)
    progress("identifying weights", 0.0)
    fingerprint = KVFingerprint(
        weights=_weights_identity(config, path),
        weight_version=config.weight_version,
        dtype=str(dtype),
        kv_dtype=config.kv_cache_dtype,
        quantization=config.quantization,
        page_size=config.page_size,
        layers=shape.layers,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
    )
    disk = open_disk_tier(
        config.disk_cache_dir,
        int(config.disk_cache_gb * GB),
        store.page_bytes,
        4 * config.page_size,
        fingerprint.digest,
    )
    return TieredKVCache(store, slots, disk, fingerprint, events)


def _weights_identity(config: EngineConfig, path: Path) -> str:
    identity = digest_weight_files(path)
    return f"{identity} dummy {config.seed}" if config.load_format == "dummy" else identity


def build_transfer_manager(
    config: EngineConfig, model: TransformerModel, store: KVStore, progress: LoadProgress
) -> DecodeKVManager | PrefillKVManager | None:
    """Build the prefill or decode side that `config` asks for; None for an engine that does both.

    A prefill engine listens from here on. Raises EngineError if it cannot.
    """
    if config.disaggregation_mode == "null":
        return None
    progress("identifying weights", 0.0)
    identity = KVIdentity.of_model(model, config.weight_version, config.kv_cache_dtype)
    timeout_s, local = config.disaggregation_timeout_s, config.disaggregation_transfer == "auto"
    if config.disaggregation_mode == "decode":
        return DecodeKVManager(store, identity, timeout_s, local=local)
    manager = PrefillKVManager(store, identity, timeout_s)
    host = config.disaggregation_bootstrap_host
    manager.start_listening(host, config.disaggregation_bootstrap_port, local=local)
    return manager


MAX_POOL_CONTEXTS = 32
"""By default the pool holds no more than this many full contexts, however much memory there is."""

BATCH_TOKENS = {"cpu": 512, "cuda": 4096}
"""Default `max_batch_tokens`: enough rows to keep the device busy, few enough to keep steps short."""


EVICTION = {"lru": lru, "lfu": lfu, "slru": slru, "priority": priority}
"""By name in the configuration: which leaf of the tree goes first."""


def build_core(
    config: EngineConfig,
    text: TextFactory | None = None,
    progress: LoadProgress | None = None,
    events: KVEventRecorder | None = None,
) -> EngineCore:
    """Load the model (blocking, seconds; reports to `progress`) and build the engine. Raises EngineError."""
    progress = progress or (lambda what, share: None)
    path = find_model(config.model, config.revision, progress)
    shape = find_architecture(path)
    device = choose_device(config.device)
    dtype = choose_dtype(config.dtype, device)
    length = config.context_length or shape.context_length
    if length > shape.context_length:
        raise EngineError(f"context_length {length} is more than the model's own {shape.context_length}")
    source = DummyTensors(shape, config.seed) if config.load_format == "dummy" else open_checkpoint(path)
    try:
        model = load_model(source, shape, dtype, device, length, progress, config.quantization)
    except RuntimeError as error:
        if "memory" not in str(error).lower():
            raise
        raise EngineError(f"the model does not fit in memory with a context of {length} tokens") from error

    pages = _count_pool_pages(config, shape, dtype, device, length)
    store = KVStore(shape, pages, config.page_size, dtype, device, config.kv_cache_dtype)
    runner = ModelRunner(model, select_attention_backend(store, device), config.page_size)
    runner.dummy_run()
    transfer_manager = build_transfer_manager(config, model, store, progress)
    tiers = None  # last: nothing may fail that would leave their thread and files behind
    if config.radix_cache and (config.host_cache_gb or config.disk_cache_dir):
        try:
            tiers = build_tiers(config, path, shape, dtype, store, progress, events)
        except Exception:
            if transfer_manager is not None:
                transfer_manager.shutdown()
            raise

    def new_scheduler() -> Scheduler:
        return Scheduler(
            KVCacheManager(
                PagePool(pages),
                config.page_size,
                enabled=config.radix_cache,
                eviction=EVICTION[config.eviction],
                observer=events,
                tiers=tiers,
            ),
            max_running=config.max_running,
            max_batch_tokens=config.max_batch_tokens or BATCH_TOKENS[device.type],
            order=config.schedule,
            transfer_manager=transfer_manager,
        )

    info = _make_model_info(config, path, shape, runner, min(length, pages * config.page_size))
    return EngineCore(
        info,
        runner,
        new_scheduler,
        text=text,
        seed=config.seed,
        events=events,
        transfer_manager=transfer_manager,
    )


def _make_model_info(
    config: EngineConfig, path: Path, shape: ModelArchitecture, runner: ModelRunner, context_length: int
) -> ModelInfo:
    name = SHIPPED_MODELS.get(config.model) or path.resolve().name.removesuffix(".gguf")
    embedding = runner.model.embedding
    return ModelInfo(
        name=config.served_model_name or name,
        path=str(path),
        architecture=shape.name,
        dtype=str(embedding.dtype).removeprefix("torch."),
        device=embedding.device.type,
        vocab_size=shape.vocab_size,
        context_length=context_length,
        eos_token_ids=frozenset(i for i in shape.eos_token_ids if i < shape.vocab_size),
        parameters=shape.parameters,
        weight_version=config.weight_version,
    )


def _count_pool_pages(
    config: EngineConfig, shape: ModelArchitecture, dtype: torch.dtype, device: torch.device, length: int
) -> int:
    """Return the pool's pages: as configured, or as fit the given share of free memory."""
    if config.kv_tokens is not None:
        return -(-config.kv_tokens // config.page_size)
    page_bytes = KVStore.bytes_per_token(shape, dtype, config.kv_cache_dtype) * config.page_size
    budget = int(measure_free_memory(device) * config.kv_memory_fraction)
    pages = min(budget // page_bytes, MAX_POOL_CONTEXTS * -(-length // config.page_size))
    if pages < 1:
        share = f"{config.kv_memory_fraction:.0%} of the free memory"
        raise EngineError(f"no KV page of {page_bytes} bytes fits in {share}; free some, or give kv_tokens")
    return pages
