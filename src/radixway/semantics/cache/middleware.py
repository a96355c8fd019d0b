"""The middleware: answers what it can, and overhears the answers of the others."""

import asyncio
import logging
from time import time
from typing import Any

from radixway.core.config import SemanticCacheConfig
from radixway.core.pipeline import Endpoint, Next, Reply, Request
from radixway.semantics.cache import stored_answers
from radixway.semantics.cache.answer_cache import AnswerCache, CacheLookup
from radixway.semantics.cache.answer_streams import CapturedStream, ReplayedStream
from radixway.semantics.cache.cache_control import CacheDirectives, read_directives
from radixway.semantics.cache.cache_metrics import CacheMetrics
from radixway.semantics.cache.cache_question import CacheQuestion, NotCacheableError, read_cache_question
from radixway.semantics.cache.store import EntryMatch, Vector
from radixway.semantics.cache.stored_answers import NotStorableError

log = logging.getLogger(__name__)

WORKER = "semantic-cache"
"""Value of `x-radixway-worker`."""

_STREAM_OVERHEAD = 64
"""Bytes of events per byte of answer; a larger stream is not recorded."""


class SemanticCache:
    """A `pipeline.Middleware` for endpoints whose answers may be kept."""

    def __init__(self, cache: AnswerCache) -> None:
        self.cache = cache
        self._config: SemanticCacheConfig = cache.config
        self._counts: CacheMetrics = cache.counts
        self.encoder = ""
        """The id of what makes the vectors, part of every scope."""
        self._keeping: set[asyncio.Task[None]] = set()

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether the endpoint's answers may be cached."""
        return endpoint.is_cacheable

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """Return a stored answer, or the answer of `call_next`."""
        allowed = read_directives(request.cache_control)
        question = self._read_question(request, allowed)
        request.cache.status = "bypass"
        if question is None:
            return await call_next(request)
        found: CacheLookup | None = None
        if allowed.may_answer:
            began_s = request.journal.elapsed_s()
            found = await self.cache.find_answer(question, allowed, self._similarity_threshold(request))
            request.journal.record_timing("semantic_cache lookup", began_s, outcome=found.outcome)
            self._record_lookup(request, question, found)
            if found.match is not None:
                return self._cached_reply(request, found.match)
            request.cache.status = "miss"
        reply = await call_next(request)
        if allowed.may_keep:
            self._capture_reply(request, question, found, reply, allowed)
        return reply

    def _similarity_threshold(self, request: Request) -> float:
        """Return the threshold of the request's category, or the default."""
        config = self._config
        usual = (
            config.similarity_threshold
            if request.cache.min_similarity is None
            else request.cache.min_similarity
        )
        return config.category_thresholds.get(request.semantics.category or "", usual)

    async def wait_for_writes(self) -> None:
        """Wait until every answer that came is kept."""
        while self._keeping:
            await asyncio.gather(*self._keeping, return_exceptions=True)

    def read_body(self, body: dict[str, Any], tenant: str, user: str | None) -> CacheQuestion:
        """Return a body as the cache sees it. Raises NotCacheableError."""
        config = self._config
        return read_cache_question(
            body,
            tenant=tenant,
            user=user or _body_user(body),
            share=config.share,
            multi_turn=config.multi_turn,
            longest_chars=config.longest_question_chars,
            max_temperature=config.max_temperature,
            encoder=self.encoder,
        )

    def _read_question(self, request: Request, allowed: CacheDirectives) -> CacheQuestion | None:
        try:
            if request.cache.bypass_reason is not None:
                raise NotCacheableError(request.cache.bypass_reason)
            if not (allowed.may_answer or allowed.may_keep):
                raise NotCacheableError("no_store")
            return self.read_body(request.body, request.caller.cache_namespace, request.caller.user)
        except NotCacheableError as reason:
            self._counts.count_reason("passed", str(reason))
            request.journal.add("semantic_cache", outcome="passed", reason=str(reason))
            return None

    def _record_lookup(self, request: Request, question: CacheQuestion, found: CacheLookup) -> None:
        details: dict[str, Any] = {"outcome": found.outcome, "scope": question.scope}
        if found.match is not None:
            entry = found.match.entry
            details |= {
                "entry": entry.id,
                "similarity": round(found.match.similarity, 4),
                "age_s": round(time() - entry.created_at, 3),
                "questions": [question.exact, entry.exact],
            }
        elif found.refused is not None:
            details["refused"] = found.refused
        request.journal.add("semantic_cache", **details)

    def _cached_reply(self, request: Request, match: EntryMatch) -> Reply:
        stored, now = match.entry.answer, time()
        request.routing.metrics_model = match.entry.model or request.routing.metrics_model
        headers = [(b"x-vsr-cache-hit", b"true")]
        if not request.stream:
            headers.append((b"content-type", b"application/json"))
            return Reply(
                200, headers, WORKER, stored_answers.decode_answer(stored, request.endpoint.reply_form, now)
            )
        headers.append((b"content-type", b"text/event-stream; charset=utf-8"))
        options = request.body.get("stream_options") or {}
        events = stored_answers.decode_answer_events(
            stored,
            request.endpoint.reply_form,
            now,
            chunk_chars=self._config.stream_chunk_chars,
            include_usage=bool(options.get("include_usage")),
        )
        chunks = ReplayedStream(events)
        request.open_streams.append(chunks)
        return Reply(200, headers, WORKER, chunks=chunks)

    def _capture_reply(
        self,
        request: Request,
        question: CacheQuestion,
        found: CacheLookup | None,
        reply: Reply,
        allowed: CacheDirectives,
    ) -> None:
        vector = found.vector if found else None

        def store(body: bytes | None) -> None:
            self._start_storing(request, question, vector, reply.status, body, allowed)

        if reply.chunks is None:
            store(reply.body)
            return
        max_bytes = _STREAM_OVERHEAD * self._config.largest_answer_bytes
        reply.chunks = CapturedStream(reply.chunks, max_bytes, store)
        request.open_streams.append(reply.chunks)

    def _start_storing(
        self,
        request: Request,
        question: CacheQuestion,
        vector: Vector | None,
        status: int,
        body: bytes | None,
        allowed: CacheDirectives,
    ) -> None:
        """Store in the background; the client does not wait."""

        async def store() -> None:
            try:
                if request.cache.bypass_reason is not None:  # found out in the answer, or on the way to it
                    raise NotStorableError(request.cache.bypass_reason)
                if request.routing.fallback_model is not None:
                    raise NotStorableError("fallback")
                if request.journal.is_erased:
                    raise NotStorableError("erased")
                answer = self._storable_answer(request, status, body)
                entry = await self.cache.store_answer(question, answer, vector, allowed)
            except NotStorableError as reason:
                self._counts.count_reason("not_kept", str(reason))
                request.journal.add("semantic_cache_keep", kept=False, reason=str(reason))
            else:
                request.journal.add("semantic_cache_keep", kept=True, entry=entry.id)

        task = asyncio.get_running_loop().create_task(store())
        self._keeping.add(task)
        task.add_done_callback(self._storing_finished)

    def _storing_finished(self, task: asyncio.Task[None]) -> None:
        self._keeping.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("semantic cache: an answer could not be stored", exc_info=error)

    def _storable_answer(self, request: Request, status: int, body: bytes | None) -> bytes:
        if body is None:
            raise NotStorableError("too_large")
        if request.stream and status == 200:
            body = stored_answers.assemble_events(request.endpoint.reply_form, body)
        return stored_answers.encode_answer(
            request.endpoint.reply_form, status, body, self._config.largest_answer_bytes
        )


def _body_user(body: dict[str, Any]) -> str | None:
    user = body.get("user") or body.get("safety_identifier")
    return user if isinstance(user, str) else None
