"""Answers that are used again for questions that mean the same.

Scoped by who asks what of which model; a verifier stands behind every match of vectors.
"""

from radixway.semantic_cache.build import CacheRoom, build_semantic_cache
from radixway.semantic_cache.cache import AnswerCache, CannotEmbed, exact_of, least_similarity
from radixway.semantic_cache.embedding import embed_with, verify_with
from radixway.semantic_cache.entry import Entry, Filter
from radixway.semantic_cache.memory import MemoryStore
from radixway.semantic_cache.middleware import SemanticCache
from radixway.semantic_cache.store import Store, StoreFailed
from radixway.semantic_cache.verifier import Verdict, Verify, verify
from radixway.semantic_cache.warm_up import Known

__all__ = [
    "AnswerCache",
    "CacheRoom",
    "CannotEmbed",
    "Entry",
    "Filter",
    "Known",
    "MemoryStore",
    "SemanticCache",
    "Store",
    "StoreFailed",
    "Verdict",
    "Verify",
    "build_semantic_cache",
    "embed_with",
    "exact_of",
    "least_similarity",
    "verify",
    "verify_with",
]
