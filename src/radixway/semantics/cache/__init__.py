"""Semantic cache: reuses answers for questions with the same meaning.

Scoped by who asks what of which model; a verifier stands behind every match of vectors.

State, and the file that owns it:

- `memory.py`, or the store behind `store_fallback.py`: answers kept by meaning; bounded, `check()`
  recounts; removals that a store missed are repeated before it is read again
"""

from radixway.semantics.cache.answer_cache import (
    AnswerCache,
    exact_digest,
    min_similarity,
)
from radixway.semantics.cache.memory import MemoryStore
from radixway.semantics.cache.middleware import SemanticCache
from radixway.semantics.cache.service import CacheRoom, build_semantic_cache, embedder_for, verifier_for
from radixway.semantics.cache.store import CacheEntry, CacheStore, EntryFilter
from radixway.semantics.cache.verifier import Verify, verify
from radixway.semantics.cache.warm_up import KnownAnswer

__all__ = [
    "AnswerCache",
    "CacheEntry",
    "CacheRoom",
    "CacheStore",
    "EntryFilter",
    "KnownAnswer",
    "MemoryStore",
    "SemanticCache",
    "Verify",
    "build_semantic_cache",
    "embedder_for",
    "exact_digest",
    "min_similarity",
    "verifier_for",
    "verify",
]
