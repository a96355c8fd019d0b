"""From the configuration to the tiers below the device's pool."""

from pathlib import Path

import torch

from radixway.config.engine import EngineConfig
from radixway.engine.architecture import ModelArchitecture
from radixway.engine.download import LoadProgress
from radixway.engine.errors import EngineError
from radixway.engine.events import KVEventRecorder
from radixway.engine.machine import measure_free_memory
from radixway.engine.pool import KVStore
from radixway.engine.tiers.disk import KVFingerprint, digest_weight_files, open_disk_tier
from radixway.engine.tiers.tiers import TieredKVCache

GB = 10**9

PASSAGE_GB = 0.25
"""Host memory that a disk tier is given where none was asked for: the way to disk leads through it."""


def build_tiers(
    config: EngineConfig,
    directory: Path,
    shape: ModelArchitecture,
    dtype: torch.dtype,
    store: KVStore,
    progress: LoadProgress,
    events: KVEventRecorder | None = None,
) -> TieredKVCache:
    """Host memory, and the disk if it can be used. Raises EngineError where memory does not suffice."""
    host_bytes = int((config.host_cache_gb or min(PASSAGE_GB, config.disk_cache_gb)) * GB)
    slots = host_bytes // store.page_bytes
    if slots < 1:
        raise EngineError(f"host_cache_gb must hold at least one KV page, which has {store.page_bytes} bytes")
    free = measure_free_memory(torch.device("cpu"))
    if host_bytes > free:
        raise EngineError(
            f"host_cache_gb {config.host_cache_gb:g} is more than the {free / GB:.1f} GB of free memory"
        )
    if config.disk_cache_dir is None:
        return TieredKVCache(store, slots, events=events)
    progress("identifying weights", 0.0)
    fingerprint = KVFingerprint(
        weights=_weights_identity(config, directory),
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


def _weights_identity(config: EngineConfig, directory: Path) -> str:
    identity = digest_weight_files(directory)
    return f"{identity} dummy {config.seed}" if config.load_format == "dummy" else identity
