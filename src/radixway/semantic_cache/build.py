"""A cache from its configuration."""

from __future__ import annotations

from radixway.config import ConfigError, SemanticCacheSection
from radixway.semantic_cache.cache import AnswerCache, Embed
from radixway.semantic_cache.counts import Counts
from radixway.semantic_cache.fallback import Breaker, StoreWithFallback
from radixway.semantic_cache.memory import MemoryStore
from radixway.semantic_cache.middleware import SemanticCache
from radixway.semantic_cache.running import CacheRoom
from radixway.semantic_cache.store import Store
from radixway.semantic_cache.verifier import Verify, verify_blind
from radixway.telemetry import Metrics


def build_semantic_cache(
    config: SemanticCacheSection, embed: Embed, metrics: Metrics, verifier: Verify = verify_blind
) -> CacheRoom:
    """The middleware over the configured store, and all that stands behind it.

    `verifier`: what judges matches of the vectors that `embed` makes.

    Raises:
        ConfigError: the store or the encryption needs a package that is not installed.
    """
    counts = Counts(metrics, config.backend)
    memory = MemoryStore(config.max_entries, config.eviction)
    store: Store = memory
    behind: StoreWithFallback | None = None
    remote = _remote_store(config)
    if remote is not None:
        behind = StoreWithFallback(remote, memory, Breaker(config.failures_in_row, config.open_s))
        behind.on_failure = lambda: counts.failed("store")
        store = behind
    if config.encryption_key is not None:
        try:
            from radixway.semantic_cache.sealed import SealedStore
        except ImportError:
            raise ConfigError(
                "semantic_cache.encryption_key needs cryptography: pip install 'radixway[semantic]'"
            ) from None
        store = SealedStore(store, config.encryption_key)
    metrics.gauges(
        "llm_cache_entries_total",
        "Entries of the semantic cache in this process",
        "backend",
        lambda: [(config.backend, len(memory))],
    )
    metrics.counters(
        "radixway_cache_evicted",
        "Entries of the semantic cache in this process that had to make room",
        "backend",
        lambda: [(config.backend, memory.evicted)],
    )
    middleware = SemanticCache(AnswerCache(config, store, embed, counts, verifier=verifier))
    return CacheRoom(middleware, memory, behind)


def _remote_store(config: SemanticCacheSection) -> Store | None:
    """Raises ConfigError."""
    try:
        if config.backend == "milvus" and config.milvus is not None:
            from radixway.semantic_cache.milvus import MilvusStore

            return MilvusStore(config.milvus)
        if config.backend == "valkey" and config.valkey is not None:
            from radixway.semantic_cache.valkey import ValkeyStore

            return ValkeyStore(config.valkey)
    except ImportError as error:
        raise ConfigError(
            f"semantic_cache.backend {config.backend} needs a package that is not installed: {error}; "
            f"pip install 'radixway[{'milvus' if config.backend == 'milvus' else 'redis'}]'"
        ) from None
    return None
