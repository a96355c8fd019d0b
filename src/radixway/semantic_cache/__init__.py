"""Answers that are used again for questions that mean the same.

Scoped by who asks what of which model; a verifier stands behind every match of vectors.
"""

from radixway.semantic_cache.build import CacheRoom, build_semantic_cache
from radixway.semantic_cache.cache import (
    AnswerCache,
    EmbeddingUnavailableError,
    exact_digest,
    least_similarity,
)
from radixway.semantic_cache.embedding import embedder_for, verifier_for
from radixway.semantic_cache.entry import CacheEntry, EntryFilter
from radixway.semantic_cache.memory import MemoryStore
from radixway.semantic_cache.middleware import SemanticCache
from radixway.semantic_cache.store import CacheStore, StoreFailedError
from radixway.semantic_cache.verifier import VerifierVerdict, Verify, verify
from radixway.semantic_cache.warm_up import KnownAnswer

__all__ = [
    "AnswerCache",
    "CacheEntry",
    "CacheRoom",
    "CacheStore",
    "EmbeddingUnavailableError",
    "EntryFilter",
    "KnownAnswer",
    "MemoryStore",
    "SemanticCache",
    "StoreFailedError",
    "VerifierVerdict",
    "Verify",
    "build_semantic_cache",
    "embedder_for",
    "exact_digest",
    "least_similarity",
    "verifier_for",
    "verify",
]
