"""From the configuration to an engine core: find the model, suit the machine, load, size the KV pool."""

from pathlib import Path

import torch

from radixway.config.engine import EngineConfig
from radixway.engine.architecture import ModelArchitecture, read_architecture
from radixway.engine.attention import select_attention_backend
from radixway.engine.cache import KVCacheManager
from radixway.engine.core import EngineCore, TextFactory
from radixway.engine.disaggregation.build import build_transfer_manager
from radixway.engine.download import LoadProgress
from radixway.engine.errors import EngineError
from radixway.engine.events import KVEventRecorder
from radixway.engine.info import ModelInfo
from radixway.engine.load import DummyTensors, SafetensorsCheckpoint, find_model, load_model
from radixway.engine.machine import choose_device, choose_dtype, measure_free_memory
from radixway.engine.pool import KVStore, PagePool
from radixway.engine.runner import ModelRunner
from radixway.engine.scheduler import Scheduler
from radixway.engine.tiers.build import build_tiers
from radixway.radix import lfu, lru, priority, slru

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
    """Load the model (blocking, seconds; `progress` is told) and everything around it. Raises EngineError."""
    progress = progress or (lambda what, share: None)
    directory = find_model(config.model, config.revision, progress)
    shape = read_architecture(directory)
    device = choose_device(config.device)
    dtype = choose_dtype(config.dtype, device)
    length = config.context_length or shape.context_length
    if length > shape.context_length:
        raise EngineError(f"context_length {length} is more than the model's own {shape.context_length}")
    source = (
        DummyTensors(shape, config.seed)
        if config.load_format == "dummy"
        else SafetensorsCheckpoint(directory)
    )
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
    side = build_transfer_manager(config, model, store, progress)
    tiers = None  # last: nothing may fail that would leave their thread and files behind
    if config.radix_cache and (config.host_cache_gb or config.disk_cache_dir):
        try:
            tiers = build_tiers(config, directory, shape, dtype, store, progress, events)
        except Exception:
            if side is not None:
                side.shutdown()
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
            side=side,
        )

    info = _make_model_info(config, directory, shape, runner, min(length, pages * config.page_size))
    return EngineCore(info, runner, new_scheduler, text=text, seed=config.seed, events=events, side=side)


def _make_model_info(
    config: EngineConfig, directory: Path, shape: ModelArchitecture, runner: ModelRunner, context_length: int
) -> ModelInfo:
    name = "radixway-guide" if config.model == "bundled" else directory.resolve().name
    embedding = runner.model.embedding
    return ModelInfo(
        name=config.served_model_name or name,
        path=str(directory),
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
    """Pages of the pool: as many as were asked for, or as fit the given share of the free memory."""
    if config.kv_tokens is not None:
        return -(-config.kv_tokens // config.page_size)
    page_bytes = KVStore.bytes_per_token(shape, dtype, config.kv_cache_dtype) * config.page_size
    budget = int(measure_free_memory(device) * config.kv_memory_fraction)
    pages = min(budget // page_bytes, MAX_POOL_CONTEXTS * -(-length // config.page_size))
    if pages < 1:
        share = f"{config.kv_memory_fraction:.0%} of the free memory"
        raise EngineError(f"no KV page of {page_bytes} bytes fits in {share}; free some, or give kv_tokens")
    return pages
