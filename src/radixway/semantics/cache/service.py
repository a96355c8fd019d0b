"""A cache built from its configuration: opened, warmed up, saved and closed with its gateway."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from heapq import nlargest
from time import time
from typing import Any

from radixway.core.circuit_breaker import ConsecutiveFailureBreaker
from radixway.core.component import CannotErase, Component, Subject
from radixway.core.config import ConfigError, SemanticCacheConfig
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.telemetry import MetricsRegistry
from radixway.semantics.cache import stored_answers
from radixway.semantics.cache.answer_cache import AnswerCache, Embed, EmbeddingUnavailableError
from radixway.semantics.cache.cache_metrics import CacheMetrics
from radixway.semantics.cache.cache_question import NotCacheableError
from radixway.semantics.cache.memory import MemoryStore
from radixway.semantics.cache.middleware import SemanticCache
from radixway.semantics.cache.store import CacheEntry, CacheStore, EntryFilter, Vector
from radixway.semantics.cache.store_fallback import FallbackStore
from radixway.semantics.cache.stored_answers import CHAT, NotStorableError
from radixway.semantics.cache.verifier import VerifierVerdict, Verify, bundled_head, verify, verify_blind
from radixway.semantics.cache.warm_up import KnownAnswer, load_cache_file, read_known_answers, save_cache_file
from radixway.semantics.encoders import EncoderError, EncoderService

log = logging.getLogger(__name__)


class CacheRoom(Component):
    """The middleware with its stores.

    Entries know no session, so they cannot be erased by one: their conversation is part of a digest.
    """

    name = "semantic_cache"
    erasable_by = frozenset({"tenant", "user", "request"})

    def __init__(self, middleware: SemanticCache, memory: MemoryStore, behind: FallbackStore | None) -> None:
        self.encoder_id: Callable[[], Awaitable[str]] = _no_encoder
        """Returns the id of the encoder, once it is loaded."""
        self.namespace_of: Callable[[str], str] = str
        """Returns the namespace of a tenant's answers."""
        self.entry_of: Callable[[str, str], str | None] = _no_entry
        """Returns the entry that a request stored, by its id and tenant."""
        self.middleware = middleware
        self.cache = middleware.cache
        self.memory = memory
        self.behind = behind
        """The store that is not memory, where there is one."""
        self._config = self.cache.config
        self._warming: asyncio.Task[int]
        self.warmed_up = asyncio.Event()
        """Set when the file has been loaded, or none is configured."""

    async def start(self) -> None:
        """Open the store and read in what is known. Raises ConfigError."""
        self.middleware.encoder = await self.encoder_id()
        known = read_known_answers(self._config.warm_up) if self._config.warm_up is not None else []
        if self._config.persist is not None:
            now = time()
            for entry in await asyncio.to_thread(load_cache_file, self._config.persist):
                await self.memory.put_entry(entry, now)
        await self.cache.store.open_store()
        self._warming = asyncio.create_task(self.warm_up(known))

    async def stop(self) -> None:
        """Keep what is in memory, and close the store."""
        await cancel_tasks([self._warming])
        await self.middleware.wait_for_writes()
        await self.save()
        await self.cache.store.close_store()

    async def erase(self, subject: Subject) -> int:
        """See `Component`. Includes removals that are pending while the store is unavailable."""
        await self.middleware.wait_for_writes()
        count, entry = 0, None
        if subject.request is not None:
            entry = self.entry_of(subject.request, subject.tenant)
        if subject.request is None or entry is not None:
            which = EntryFilter(entry, self.namespace_of(subject.tenant), subject.user)
            count = await self.cache.purge_entries(which)
        if self.behind is not None and self.behind.pending_removals:
            raise CannotErase(
                f"{self.behind.name}: {self.behind.problem or 'it is left alone after failures'}"
            )
        if (problem := await self.save()) is not None:
            raise CannotErase(f"semantic_cache.persist: {problem}")
        return count

    async def warm_up(self, known: list[KnownAnswer]) -> int:
        """Store the `known` answers and return how many; questions that cannot be cached are skipped."""
        stored = 0
        for known_answer in known:
            request, response = known_answer.request_and_response()
            try:
                question = self.middleware.read_body(request, known_answer.tenant, known_answer.user)
                answer = stored_answers.encode_answer(CHAT, 200, response, self._config.largest_answer_bytes)
            except (NotCacheableError, NotStorableError) as reason:
                log.warning("semantic cache: skipped a warm-up entry: %s", reason)
                continue
            await self.cache.store_answer(question, answer, None)
            stored += 1
        self.warmed_up.set()
        return stored

    def describe(self) -> dict[str, Any]:
        """Return the backend and its state for `/health`."""
        state: dict[str, Any] = {"backend": self._config.backend, "entries_in_memory": len(self.memory)}
        if self.behind is not None:
            state["store"] = "ok" if self.behind.problem is None else self.behind.problem
            state["pending_removals"] = self.behind.pending_removals
        return state

    async def stats(self) -> dict[str, Any]:
        """Return the backend and the cache's counts for `/cache/stats`."""
        counts = self.cache.counts.describe()
        lookups = counts.get("hits", 0) + counts.get("misses", 0)
        return self.describe() | {
            "entries": await self.cache.store.count_entries(),
            "evicted": self.memory.evicted,
            "thresholds": {
                "similarity": self._config.similarity_threshold,
                "ngram": self._config.ngram_threshold,
                **self._config.category_thresholds,
            },
            "ttl_s": self._config.ttl_s,
            "max_entries": self._config.max_entries,
            "hit_rate": counts.get("hits", 0) / lookups if lookups else None,
            "counts": counts,
        }

    def newest_entries(self, which: EntryFilter, limit: int) -> list[CacheEntry]:
        """Return at most `limit` entries in memory that `which` matches and that have not expired."""
        now = time()
        found = [entry for entry in self.memory if entry.is_fresh(now) and which.matches(entry)]
        return nlargest(limit, found, key=lambda entry: entry.created_at)

    async def save(self) -> str | None:
        """Write what is in memory to its file, if it has one; what was wrong with that."""
        if self._config.persist is None:
            return None
        try:
            await asyncio.to_thread(save_cache_file, iter(list(self.memory)), self._config.persist)
        except OSError as error:
            log.warning("semantic cache: the cache could not be saved: %s", error)
            return str(error)
        return None


async def _no_encoder() -> str:
    return ""


def _no_entry(request_id: str, tenant: str) -> str | None:
    return None


def build_semantic_cache(
    config: SemanticCacheConfig, embed: Embed, metrics: MetricsRegistry, verifier: Verify = verify_blind
) -> CacheRoom:
    """Build the middleware over the configured store.

    `verifier`: what judges matches of the vectors that `embed` makes.

    Raises:
        ConfigError: the store or the encryption needs a package that is not installed.
    """
    counts = CacheMetrics(metrics, config.backend)
    memory = MemoryStore(config.max_entries, config.eviction)
    store: CacheStore = memory
    remote_store: FallbackStore | None = None
    remote = _build_remote_store(config)
    if remote is not None:
        remote_store = FallbackStore(
            remote, memory, ConsecutiveFailureBreaker(config.failures_in_row, config.open_s)
        )
        remote_store.on_failure = lambda: counts.count_failure("store")
        store = remote_store
    if config.encryption_key is not None:
        try:
            from radixway.semantics.cache.encrypted_store import EncryptedStore
        except ImportError:
            raise ConfigError(
                "semantic_cache.encryption_key needs cryptography: pip install 'radixway[semantic]'"
            ) from None
        store = EncryptedStore(store, config.encryption_key)
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
    return CacheRoom(middleware, memory, remote_store)


def _build_remote_store(config: SemanticCacheConfig) -> CacheStore | None:
    try:
        if config.backend == "milvus" and config.milvus is not None:
            from radixway.semantics.cache.milvus import MilvusStore

            return MilvusStore(config.milvus)
        if config.backend == "valkey" and config.valkey is not None:
            from radixway.semantics.cache.valkey import ValkeyStore

            return ValkeyStore(config.valkey)
    except ImportError as error:
        raise ConfigError(
            f"semantic_cache.backend {config.backend} needs a package that is not installed: {error}; "
            f"pip install 'radixway[{'milvus' if config.backend == 'milvus' else 'redis'}]'"
        ) from None
    return None


def embedder_for(service: EncoderService) -> Embed:
    """A text's vector by way of `service`; where that is busy or broken, only literal repeats are found."""

    async def embed(text: str) -> Vector:
        try:
            return (await service.encode(text)).vector
        except EncoderError as error:
            raise EmbeddingUnavailableError(str(error)) from None

    return embed


def verifier_for(service: EncoderService) -> Verify:
    """The verifier for cosines of `service`: where another model runs than its head was trained with, it
    judges by the words alone. Raises EncoderError where the head cannot be read."""
    trained_with = bundled_head().weights

    def judge(one: str, other: str, cosine: float) -> VerifierVerdict:
        known = service.encoder is None or service.encoder.weights == trained_with
        return verify(one, other, cosine) if known else verify_blind(one, other, cosine)

    return judge
