"""What attempts at workers take: for `/metrics`, and for the journal of the request that was answered."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from itertools import pairwise
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
from radixway.telemetry import Answers, Journal, Metrics, Outcome, Prediction, Spent
from radixway.transports.place import Place

Carry = Callable[[Request, Place], Awaitable[Reply]]

_MOST_TIMES = 256
_AT_THE_END = 3
"""Pieces of a stream that may bring no text: figures, and the mark of its end."""


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
        over = _Over(answers, choice)
        if reply.chunks is not None:
            answers.first_token.add(request.journal.elapsed_s(), request.journal.trace_id)
            several = request.endpoint.has_token_ids
            reply.chunks = MeasuredStream(reply.chunks, over, request.prompt_tokens, several=several)
            request.opened.append(reply.chunks)
        elif reply.status < 300:
            reply.used = used_of(reply.body, generates=request.endpoint.generates)
            over(reply.used, "answered")
        else:
            answers.ended("rejected")
        return reply


class _Over(NamedTuple):
    """Counts what an answer took, once it has ended."""

    answers: Answers
    choice: Choice

    def __call__(self, used: Used | None, outcome: Outcome) -> None:
        self.answers.ended(outcome)
        if used is None:
            return
        asked = self.choice.request
        predicted = None
        if asked.blocks and outcome == "answered":
            predicted = Prediction(asked.tokens, self.choice.cached_tokens)
        cached = used.cached_tokens if used.tells_cached else None
        self.answers.spent(Spent(used.prompt_tokens, used.completion_tokens, cached), predicted)


class MeasuredStream(Metered):
    """A stream, the times between its pieces, and what it used.

    The last pieces may bring no text, but figures or the mark of the end, and are looked at when all is over.
    """

    def __init__(self, chunks: Chunks, over: _Over, prompt_tokens: int | None, *, several: bool) -> None:
        """`prompt_tokens`: what it is believed to have, where the worker does not say."""
        super().__init__(chunks, self._told, several=several)
        self.journal: Journal | None = None
        """Told what the stream used, when it has ended."""
        self._over = over
        self._prompt_tokens = prompt_tokens
        self._times: list[float] = []
        """When the latest pieces came."""
        self._outcome: Outcome = "left"

    async def __anext__(self) -> bytes:
        try:
            return await super().__anext__()
        except StopAsyncIteration:
            self._outcome = "answered"
            raise
        except StreamBroken as error:
            self._outcome = "truncated" if error.truncated else "broken"
            raise

    async def pass_on(self, send: Callable[[bytes], Coroutine[Any, Any, None]]) -> None:
        try:
            await super().pass_on(send)
            self._outcome = "answered"
        except StreamBroken as error:
            self._outcome = "truncated" if error.truncated else "broken"
            raise

    async def aclose(self) -> None:
        if self._outcome == "left" and self._last and b"[DONE]" in self._last[-1]:
            self._outcome = "answered"  # whoever read it knew that nothing would follow
        await super().aclose()

    def _note(self, chunk: bytes) -> None:
        self._times.append(perf_counter())
        if len(self._times) == _MOST_TIMES:
            self._count_gaps(_AT_THE_END)
        Metered._note(self, chunk)

    def _count_gaps(self, but: int) -> None:
        """Of the pieces that came, but for the latest ones."""
        times, gaps = self._times, self._over.answers.gaps
        for before, after in pairwise(times[: len(times) - but]):
            gaps.add(after - before)
        del times[: max(len(times) - but - 1, 0)]

    def _told(self, used: Used) -> None:
        last = list(self._last)
        self._count_gaps(len(last))
        gaps = self._over.answers.gaps
        gap_of = pairwise(self._times)
        for chunk in last[len(last) - len(self._times) + 1 :]:
            before, after = next(gap_of)
            if count_texts(chunk):
                gaps.add(after - before)
        self._over(used, self._outcome)
        if self.journal is not None:
            if used.estimated and not used.prompt_tokens:
                used.prompt_tokens = self._prompt_tokens or 0
            self.journal.add("tokens", used)


def note_tokens(request: Request, reply: Reply) -> None:
    """Have the request's journal say what its answer used, by the worker's word; a stream's at its end."""
    if isinstance(reply.chunks, MeasuredStream):
        reply.chunks.journal = request.journal
    elif reply.used is not None:
        request.journal.add("tokens", reply.used)
