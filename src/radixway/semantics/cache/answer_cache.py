"""The cache itself: find an answer for a question, keep one, let go of some. Knows no HTTP."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from math import inf
from time import perf_counter, time
from uuid import uuid4

from radixway.core.config import SemanticCacheConfig
from radixway.semantics.cache.cache_control import ANYTHING, CacheDirectives
from radixway.semantics.cache.cache_metrics import CacheMetrics
from radixway.semantics.cache.cache_question import CacheQuestion, blake_digest, normalize_question
from radixway.semantics.cache.ngram_vectors import ngram_vector
from radixway.semantics.cache.store import CacheEntry, CacheStore, EntryFilter, EntryMatch, Vector
from radixway.semantics.cache.verifier import Verify, verify_blind
from radixway.semantics.cache.verifier.language import is_foreign, is_latin

Embed = Callable[[str], Awaitable[Vector]]
"""A text's vector, unit length. Raises EmbeddingUnavailableError."""

_MAX_DISTINCT_QUESTIONS = 10_000


class EmbeddingUnavailableError(Exception):
    """The encoder is busy, broken or not there; the text is a short reason."""


@dataclass(frozen=True, slots=True)
class CacheLookup:
    """The cache's answer to a question."""

    outcome: str
    """`exact`, `similar`, `miss`, or `encoder`: it could only look for literal repeats."""
    match: EntryMatch | None = None
    vector: Vector | None = None
    """The question's own, for keeping its answer."""
    refused: str | None = None
    """Why the nearest question was rejected, if one was."""


class AnswerCache:
    """Entries of all scopes behind one store. Belongs to one event loop."""

    def __init__(
        self,
        config: SemanticCacheConfig,
        store: CacheStore,
        embed: Embed,
        counts: CacheMetrics,
        *,
        verifier: Verify = verify_blind,
    ) -> None:
        """`verifier`: by default the one that needs no encoder."""
        self.config = config
        self.store = store
        self.counts = counts
        self._embed = embed
        self.verify = verifier
        self._reported_pairs: dict[tuple[str, str], None] = {}

    async def find_answer(
        self, question: CacheQuestion, allowed: CacheDirectives = ANYTHING, threshold: float | None = None
    ) -> CacheLookup:
        """Find an answer that may be given for `question`.

        `threshold`: the cosine it takes, by default `similarity_threshold`.
        """
        began = perf_counter()
        threshold = self.config.similarity_threshold if threshold is None else threshold
        found = await self._find_answer(question, allowed, threshold)
        self.counts.observe_operation("lookup", perf_counter() - began)
        if found.match is None:
            self.counts.count_miss()
        else:
            self.counts.count_hit(found.outcome)
            await self.store.mark_used(found.match.entry)
        return found

    async def store_answer(
        self,
        question: CacheQuestion,
        answer: bytes,
        vector: Vector | None,
        allowed: CacheDirectives = ANYTHING,
    ) -> CacheEntry:
        """Store `answer` to `question`. A missing `vector` is made, if it can be."""
        began = perf_counter()
        if vector is None:
            vector = await self._embed_text(question.text)
        now = time()
        ttl_s = min(self.config.ttl_s or inf, inf if allowed.ttl_s is None else allowed.ttl_s)
        entry = CacheEntry(
            id=uuid4().hex,
            scope=question.scope,
            exact=question.exact,
            question=question.text,
            vector=vector,
            answer=answer,
            tenant=question.tenant,
            user=question.user,
            model=question.model,
            created_at=now,
            expires_at=now + ttl_s,
        )
        await self.store.put_entry(entry, now)
        self.counts.observe_operation("store", perf_counter() - began)
        return entry

    async def purge_entries(self, which: EntryFilter) -> int:
        """Remove the entries that `which` matches; return how many there were."""
        began = perf_counter()
        count = await self.store.remove_entries(which)
        self.counts.observe_operation("purge", perf_counter() - began)
        return count

    async def report_wrong(
        self, entry_id: str, pair: tuple[str, str] | None = None, tenant: str | None = None
    ) -> bool:
        """Remove the entry whose answer was wrong; return whether it was still there.

        `pair`: the digests of the question asked and of the one that was kept; they are told apart from now
        on, so that the answer to one of them, when it is kept again, is not given to the other. `tenant`:
        whose entry it must be.
        """
        if pair is not None and pair[0] != pair[1]:
            self._remember_rejected(*pair)
        began = perf_counter()
        there = bool(await self.store.remove_entries(EntryFilter(id=entry_id, tenant=tenant)))
        self.counts.observe_operation("report", perf_counter() - began)
        return there

    async def question_similarity(self, one: str, other: str) -> float | None:
        """The cosine of two questions, 0 where they are compared differently; None without an encoder."""
        if is_latin(one) != is_latin(other):
            return 0.0
        mine, theirs = await self._embed_text(one), await self._embed_text(other)
        return None if mine is None or theirs is None else min(float(mine @ theirs), 1.0)

    async def _find_answer(
        self, question: CacheQuestion, allowed: CacheDirectives, threshold: float
    ) -> CacheLookup:
        now = time()
        entry = await self.store.find_exact(question.scope, question.exact, now)
        if entry is not None and _is_young_enough(entry, allowed, now):
            return CacheLookup("exact", EntryMatch(entry, 1.0), entry.vector)
        vector = await self._embed_text(question.text)
        if vector is None:
            return CacheLookup("encoder")
        refused = None
        near: Sequence[EntryMatch] = ()
        if threshold < 1:
            near = await self.store.find_nearest(question.scope, vector, self.config.candidates, now)
        if near and (threshold := min_similarity(self.config, question.text, threshold)) < 1:
            for match in near:
                if match.similarity < threshold:
                    break
                if not _is_young_enough(match.entry, allowed, now):
                    continue
                reason = self._reject_reason(question, match)
                if reason is None:
                    return CacheLookup("similar", match, vector)
                refused = refused or reason
        if refused is not None:
            self.counts.count_reason("refused", refused)
        return CacheLookup("miss", None, vector, refused)

    def _reject_reason(self, question: CacheQuestion, match: EntryMatch) -> str | None:
        pair = (question.exact, match.entry.exact)
        if pair in self._reported_pairs or pair[::-1] in self._reported_pairs:
            return "reported"
        if not self.config.verify:
            return None
        verdict = self.verify(question.text, match.entry.question, match.similarity)
        return None if verdict.same else verdict.reason

    async def _embed_text(self, text: str) -> Vector | None:
        if not is_latin(text):
            return ngram_vector(text)
        try:
            return await self._embed(text)
        except EmbeddingUnavailableError:
            self.counts.count_failure("encoder")
            return None

    def _remember_rejected(self, one: str, other: str) -> None:
        self._reported_pairs[one, other] = None
        while len(self._reported_pairs) > _MAX_DISTINCT_QUESTIONS:
            del self._reported_pairs[next(iter(self._reported_pairs))]


def min_similarity(config: SemanticCacheConfig, text: str, threshold: float) -> float:
    """Return the threshold for a text: another language takes `ngram_threshold` where English takes
    `similarity_threshold`; a `threshold` that is a category's own is as much nearer to 1, or further away."""
    if threshold >= 1 or not is_foreign(text):
        return threshold
    usual = config.similarity_threshold
    share = (1 - threshold) / (1 - usual) if usual < 1 else 1.0
    return max(1 - share * (1 - config.ngram_threshold), 0.0)


def exact_digest(text: str) -> str:
    """Return the digest by which a question is purged."""
    return blake_digest(normalize_question(text).encode())


def _is_young_enough(entry: CacheEntry, allowed: CacheDirectives, now: float) -> bool:
    return allowed.max_age_s is None or now - entry.created_at <= allowed.max_age_s
