"""The middleware: answers what it can, and overhears the answers of the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import time
from typing import Any

from radixway.config import SemanticCacheSection
from radixway.pipeline import Endpoint, Next, Reply, Request
from radixway.semantic_cache import answers
from radixway.semantic_cache.answers import NotKept
from radixway.semantic_cache.cache import AnswerCache, Found
from radixway.semantic_cache.counts import Counts
from radixway.semantic_cache.directives import Directives, read_directives
from radixway.semantic_cache.entry import Match
from radixway.semantic_cache.scope import NotCacheable, Question, read_question
from radixway.semantic_cache.streams import Overheard, Replayed

log = logging.getLogger(__name__)

WORKER = "semantic-cache"
"""Who answered, in `x-radixway-worker`."""

_STREAM_OVERHEAD = 64
"""Bytes of events for a byte of answer, at most; beyond that a stream is not overheard to its end."""


class SemanticCache:
    """A `pipeline.Middleware` for endpoints whose answers may be kept."""

    def __init__(
        self,
        cache: AnswerCache,
        *,
        clock: Callable[[], float] = time,
    ) -> None:
        self.cache = cache
        self._config: SemanticCacheSection = cache.config
        self._counts: Counts = cache.counts
        self.encoder = ""
        """The id of what makes the vectors, part of every scope."""
        self._clock = clock
        self._keeping: set[asyncio.Task[None]] = set()

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Where answers may be kept."""
        return endpoint.is_cacheable

    async def __call__(self, request: Request, call_next: Next) -> Reply:
        """A kept answer, or the answer of whoever comes next."""
        allowed = read_directives(request.cache_control)
        question = self._question_of(request, allowed)
        request.cache_status = "bypass"
        if question is None:
            return await call_next(request)
        found: Found | None = None
        if allowed.may_answer:
            began_s = request.journal.elapsed_s()
            found = await self.cache.find(question, allowed, self._least(request))
            request.journal.timed("semantic_cache lookup", began_s, outcome=found.outcome)
            self._note(request, question, found)
            if found.match is not None:
                return self._give(request, found.match)
            request.cache_status = "miss"
        reply = await call_next(request)
        if allowed.may_keep:
            self._overhear(request, question, found, reply, allowed)
        return reply

    def _least(self, request: Request) -> float:
        """The least similarity: what the request's category says, else what is said for all."""
        config = self._config
        usual = config.similarity_threshold if request.cache_threshold is None else request.cache_threshold
        return config.category_thresholds.get(request.category or "", usual)

    async def settle(self) -> None:
        """Wait until every answer that came is kept."""
        while self._keeping:
            await asyncio.gather(*self._keeping, return_exceptions=True)

    def read(self, body: dict[str, Any], tenant: str, user: str | None) -> Question:
        """A body as the cache sees it. Raises NotCacheable."""
        config = self._config
        return read_question(
            body,
            tenant=tenant,
            user=user or _user_of(body),
            share=config.share,
            multi_turn=config.multi_turn,
            longest_chars=config.longest_question_chars,
            max_temperature=config.max_temperature,
            encoder=self.encoder,
        )

    def _question_of(self, request: Request, allowed: Directives) -> Question | None:
        try:
            if request.uncacheable is not None:
                raise NotCacheable(request.uncacheable)
            if not (allowed.may_answer or allowed.may_keep):
                raise NotCacheable("no_store")
            return self.read(request.body, request.cache_namespace, request.user)
        except NotCacheable as reason:
            self._counts.passed(str(reason))
            request.journal.add("semantic_cache", outcome="passed", reason=str(reason))
            return None

    def _note(self, request: Request, question: Question, found: Found) -> None:
        said: dict[str, Any] = {"outcome": found.outcome, "scope": question.scope}
        if found.match is not None:
            entry = found.match.entry
            said |= {
                "entry": entry.id,
                "similarity": round(found.match.similarity, 4),
                "age_s": round(self._clock() - entry.created_at, 3),
                "questions": [question.exact, entry.exact],
            }
        elif found.refused is not None:
            said["refused"] = found.refused
        request.journal.add("semantic_cache", **said)

    def _give(self, request: Request, match: Match) -> Reply:
        stored, now = match.entry.answer, self._clock()
        request.known_model = match.entry.model or request.known_model
        headers = [(b"x-vsr-cache-hit", b"true")]
        if not request.stream:
            headers.append((b"content-type", b"application/json"))
            return Reply(200, headers, WORKER, answers.whole(stored, request.endpoint.reply_form, now))
        headers.append((b"content-type", b"text/event-stream; charset=utf-8"))
        options = request.body.get("stream_options") or {}
        events = answers.stream(
            stored,
            request.endpoint.reply_form,
            now,
            chunk_chars=self._config.stream_chunk_chars,
            include_usage=bool(options.get("include_usage")),
        )
        chunks = Replayed(events)
        request.opened.append(chunks)
        return Reply(200, headers, WORKER, chunks=chunks)

    def _overhear(
        self, request: Request, question: Question, found: Found | None, reply: Reply, allowed: Directives
    ) -> None:
        def heard(body: bytes | None) -> None:
            self._start_keeping(request, question, found, reply.status, body, allowed)

        if reply.chunks is None:
            heard(reply.body)
            return
        most = _STREAM_OVERHEAD * self._config.largest_answer_bytes
        reply.chunks = Overheard(reply.chunks, most, heard)
        request.opened.append(reply.chunks)

    def _start_keeping(
        self,
        request: Request,
        question: Question,
        found: Found | None,
        status: int,
        body: bytes | None,
        allowed: Directives,
    ) -> None:
        """The client does not wait for what follows."""

        async def keep() -> None:
            try:
                if request.uncacheable is not None:  # found out in the answer, or on the way to it
                    raise NotKept(request.uncacheable)
                if request.fallback is not None:
                    raise NotKept("fallback")
                answer = self._answer_of(request, status, body)
                vector = found.vector if found else None
                entry = await self.cache.keep(question, answer, vector, allowed)
            except NotKept as reason:
                self._counts.not_kept(str(reason))
                request.journal.add("semantic_cache_keep", kept=False, reason=str(reason))
            else:
                request.journal.add("semantic_cache_keep", kept=True, entry=entry.id)

        task = asyncio.get_running_loop().create_task(keep())
        self._keeping.add(task)
        task.add_done_callback(self._kept)

    def _kept(self, task: asyncio.Task[None]) -> None:
        self._keeping.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an answer could not be kept", exc_info=error)

    def _answer_of(self, request: Request, status: int, body: bytes | None) -> bytes:
        if body is None:
            raise NotKept("too_large")
        if request.stream and status == 200:
            body = answers.assemble(request.endpoint.reply_form, body)
        return answers.keep(request.endpoint.reply_form, status, body, self._config.largest_answer_bytes)


def _user_of(body: dict[str, Any]) -> str | None:
    user = body.get("user") or body.get("safety_identifier")
    return user if isinstance(user, str) else None
