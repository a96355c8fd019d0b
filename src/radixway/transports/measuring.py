"""What an attempt at a worker took: for metrics and for the request's journal."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from time import perf_counter
from typing import Any, NamedTuple

from radixway.pipeline import (
    Chunks,
    Metered,
    Reply,
    Request,
    StreamBroken,
    Used,
    WorkerFailed,
    count_texts,
    used_of,
)
from radixway.routing import Choice
from radixway.telemetry import Answers, Metrics, Outcome, Prediction, Spent
from radixway.transports.place import Place

Carry = Callable[[Request, Place], Awaitable[Reply]]


class Tokens(NamedTuple):
    """What an answer took, for its journal: one per answer of a worker."""

    worker: str
    used: Used
    cost: float
    currency: str
    first_token_s: float | None

    def explain(self) -> dict[str, Any]:
        """For the journal."""
        used = self.used
        told: dict[str, Any] = {
            "worker": self.worker,
            "prompt_tokens": used.prompt_tokens,
            "completion_tokens": used.completion_tokens,
            "estimated": used.estimated,
        }
        if used.tells_cached:
            told["cached_tokens"] = used.cached_tokens
        if self.currency:
            told |= {"cost": round(self.cost, 9), "currency": self.currency}
        if self.first_token_s is not None:
            told["first_token_s"] = round(self.first_token_s, 6)
        return told


class Measuring:
    """Around each attempt, below retry and hedge."""

    def __init__(self, metrics: Metrics, carry: Carry) -> None:
        self._attempts = metrics.attempts
        self._carry = carry

    async def __call__(self, request: Request, place: Place) -> Reply:
        """What the worker answers. Raises WorkerFailed."""
        worker, choice = place.worker, place.choice
        model = request.answering or request.known_model
        answers = self._attempts.of(worker.name, model, choice.policy)
        if worker.removed:
            self._attempts.forget(worker.name)  # it left while the request was on its way to it
        try:
            reply = await self._carry(request, place)
        except WorkerFailed as failure:
            if place.prefill is not None and failure.worker == place.prefill.worker.name:
                answers = self._attempts.of(failure.worker, model, place.prefill.choice.policy)
            answers.ended(failure.reason)
            raise
        except asyncio.CancelledError:
            answers.ended("left")
            raise
        if place.prefill is not None:
            choice = place.prefill.choice
        over = _Over(request, reply.worker, answers, choice)
        if reply.chunks is not None:
            first_token_s = request.journal.elapsed_s()
            answers.first_token.add(first_token_s, request.journal.trace_id)
            several = request.surface == "generate"
            reply.chunks = MeasuredStream(
                reply.chunks, answers.gaps.add, over, first_token_s, several=several
            )
            request.opened.append(reply.chunks)
        elif reply.status < 300:
            over(used_of(reply.body), "answered")
        else:
            answers.ended("rejected")
        return reply


class _Over(NamedTuple):
    """Counts what an answer took, once it has ended."""

    request: Request
    worker: str
    answers: Answers
    choice: Choice

    def __call__(self, used: Used | None, outcome: Outcome, first_token_s: float | None = None) -> None:
        self.answers.ended(outcome)
        if used is None:
            return
        prompt, asked = used.prompt_tokens, self.choice.request
        predicted = None
        if asked.blocks and outcome == "answered":
            predicted = Prediction(asked.tokens, self.choice.cached_tokens)
        cached = used.cached_tokens if used.tells_cached else None
        cost, currency = self.answers.spent(Spent(prompt, used.completion_tokens, cached), predicted)
        self.request.journal.add("tokens", Tokens(self.worker, used, cost, currency, first_token_s))


class MeasuredStream(Metered):
    """A stream, the times between its pieces, and what it used.

    The last pieces may bring no text, but figures or the mark of the end, and are looked at when all is over.
    """

    def __init__(
        self,
        chunks: Chunks,
        gap: Callable[[float], None],
        over: _Over,
        first_token_s: float,
        *,
        several: bool,
    ) -> None:
        super().__init__(chunks, self._told, several=several)
        self._gap = gap
        self._over = over
        self._first_token_s = first_token_s
        self._came_at = perf_counter()
        self._gaps: deque[float | None] = deque()
        """Before each of the last pieces; None before the first of the stream."""
        self._outcome: Outcome = "left"

    async def __anext__(self) -> bytes:
        try:
            return await super().__anext__()
        except StopAsyncIteration:
            self._outcome = "answered"
            raise
        except StreamBroken:
            self._outcome = "broken"
            raise

    async def pass_on(self, send: Callable[[bytes], Coroutine[Any, Any, None]]) -> None:
        try:
            await super().pass_on(send)
            self._outcome = "answered"
        except StreamBroken:
            self._outcome = "broken"
            raise

    async def aclose(self) -> None:
        if self._last and b"[DONE]" in self._last[-1] and self._outcome == "left":
            self._outcome = "answered"  # whoever read it knew that nothing would follow
        await super().aclose()

    def _note(self, chunk: bytes) -> None:
        gaps = self._gaps
        if len(gaps) == len(self._last) == self._last.maxlen and (gap := gaps.popleft()) is not None:
            self._gap(gap)
        now = perf_counter()
        gaps.append(now - self._came_at if self._last else None)
        self._came_at = now
        super()._note(chunk)

    def _told(self, used: Used) -> None:
        for chunk, gap in zip(self._last, self._gaps, strict=True):
            if gap is not None and count_texts(chunk):
                self._gap(gap)
        self._over(used, self._outcome, self._first_token_s)
