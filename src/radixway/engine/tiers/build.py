"""From the configuration to the tiers below the device's pool."""

from pathlib import Path

import torch

from radixway.config.engine import EngineConfig
from radixway.engine.architecture import Architecture
from radixway.engine.download import Progress
from radixway.engine.errors import EngineError
from radixway.engine.events import CacheEvents
from radixway.engine.machine import free_memory
from radixway.engine.pool import KVStore
from radixway.engine.tiers.disk import Fingerprint, open_disk, weights_identity
from radixway.engine.tiers.tiers import Tiers

GB = 10**9

PASSAGE_GB = 0.25
"""Host memory that a disk tier is given where none was asked for: the way to disk leads through it."""


def build_tiers(
    config: EngineConfig,
    directory: Path,
    shape: Architecture,
    dtype: torch.dtype,
    store: KVStore,
    progress: Progress,
    events: CacheEvents | None = None,
) -> Tiers:
    """Host memory, and the disk if it can be used. Raises EngineError where memory does not suffice."""
    host_bytes = int((config.host_cache_gb or min(PASSAGE_GB, config.disk_cache_gb)) * GB)
    slots = host_bytes // store.page_bytes
    if slots < 1:
        raise EngineError(f"host_cache_gb must hold at least one KV page, which has {store.page_bytes} bytes")
    free = free_memory(torch.device("cpu"))
    if host_bytes > free:
        raise EngineError(
            f"host_cache_gb {config.host_cache_gb:g} is more than the {free / GB:.1f} GB of free memory"
        )
    if config.disk_cache_dir is None:
        return Tiers(store, slots, events=events)
    progress("identifying weights", 0.0)
    fingerprint = Fingerprint(
        weights=_identity(config, directory),
        weight_version=config.weight_version,
        dtype=str(dtype),
        kv_dtype=config.kv_cache_dtype,
        quantization=config.quantization,
        page_size=config.page_size,
        layers=shape.layers,
        kv_heads=shape.kv_heads,
        head_dim=shape.head_dim,
    )
    disk = open_disk(
        config.disk_cache_dir,
        int(config.disk_cache_gb * GB),
        store.page_bytes,
        4 * config.page_size,
        fingerprint.digest,
    )
    return Tiers(store, slots, disk, fingerprint, events)


def _identity(config: EngineConfig, directory: Path) -> str:
    identity = weights_identity(directory)
    return f"{identity} dummy {config.seed}" if config.load_format == "dummy" else identity
