"""Measures attempts at workers, for `/metrics` and for the journal of the request."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from operator import sub
from time import perf_counter

import msgspec

from radixway.core.config import ModelPricing
from radixway.core.pipeline import (
    Chunks,
    MeteredChunks,
    Reply,
    Request,
    SendChunk,
    StreamBrokenError,
    TokenUsage,
    WorkerFailedError,
    count_text_deltas,
)
from radixway.core.telemetry import (
    AttemptSeries,
    AttemptUsage,
    Journal,
    MetricsRegistry,
    Outcome,
    PriceOf,
    UsagePrediction,
)
from radixway.routing import WorkerChoice
from radixway.routing.transports.assignment import WorkerAssignment

AttemptCall = Callable[[Request, WorkerAssignment], Awaitable[Reply]]

_MAX_CHUNK_TIMES = 256
_AT_THE_END = 3
"""Chunks of a stream that may have no text: usage and the end mark."""


class MeasuredAttempt:
    """Measures each attempt, below retry and hedge."""

    def __init__(self, metrics: MetricsRegistry, carry: AttemptCall) -> None:
        self._attempts = metrics.attempts
        self._carry = carry

    async def __call__(self, request: Request, place: WorkerAssignment) -> Reply:
        """Carry `request` to `place` and count the outcome. Raises WorkerFailedError."""
        worker, choice = place.worker, place.choice
        model = request.routing.resolved_model or request.routing.metrics_model
        answers = self._attempts.series_for(worker.name, model, choice.policy)
        if worker.hosted is not None:
            answers.own_price_of = _price_of(request.routing.pricing)
        if worker.removed:
            self._attempts.forget_worker(worker.name)  # it left while the request was on its way to it
        try:
            reply = await self._carry(request, place)
        except WorkerFailedError as failure:
            if place.prefill is not None and failure.worker == place.prefill.worker.name:
                answers = self._attempts.series_for(failure.worker, model, place.prefill.choice.policy)
            answers.record_outcome(failure.reason)
            raise
        except asyncio.CancelledError:
            answers.record_outcome("left")
            raise
        if place.prefill is not None:
            choice = place.prefill.choice
        over = _AttemptEnd(answers, choice)
        if reply.chunks is not None:
            answers.first_token.observe_value(request.journal.elapsed_s(), request.journal.trace_id)
            several = request.endpoint.has_token_ids
            reply.chunks = MeasuredStream(reply.chunks, over, request.routing.prompt_tokens, several=several)
            request.open_streams.append(reply.chunks)
        elif reply.status < 300:
            if reply.used is None:  # the transport has not looked, or found none
                reply.used = reply.reported_usage(generates=request.endpoint.generates)
            else:
                reply.note_usage(reply.used)
            over(reply.used, "answered")
        else:
            answers.record_outcome("rejected")
        return reply


class _AttemptEnd(msgspec.Struct, gc=False):
    """Counts an attempt once it has ended."""

    answers: AttemptSeries
    choice: WorkerChoice

    def __call__(self, used: TokenUsage | None, outcome: Outcome) -> None:
        self.answers.record_outcome(outcome)
        if used is None:
            return
        prompt = self.choice.request
        predicted = None
        if prompt.blocks and outcome == "answered":
            predicted = UsagePrediction(prompt.tokens, self.choice.cached_tokens)
        cached = used.cached_tokens if used.tells_cached else None
        self.answers.record_usage(AttemptUsage(used.prompt_tokens, used.completion_tokens, cached), predicted)


class MeasuredStream(MeteredChunks):
    """A stream, the times between its pieces, and what it used.

    The last pieces may bring no text, but figures or the mark of the end, and are looked at when all is over.
    """

    def __init__(
        self, chunks: Chunks, over: _AttemptEnd, prompt_tokens: int | None, *, several: bool
    ) -> None:
        """`prompt_tokens`: what it is believed to have, where the worker does not say."""
        super().__init__(chunks, self._on_usage, several=several)
        self.journal: Journal | None = None
        """Journal for the stream's usage at its end."""
        self._over = over
        self._prompt_tokens = prompt_tokens
        self._times: list[float] = []
        """Arrival times of the latest chunks."""
        self._outcome: Outcome = "left"

    async def __anext__(self) -> bytes:
        try:
            chunk = await super().__anext__()
        except StopAsyncIteration:
            self._outcome = "answered"
            raise
        except StreamBrokenError as error:
            self._outcome = "truncated" if error.truncated else "broken"
            raise
        self._note_time()
        return chunk

    async def pass_on(self, send: SendChunk) -> None:
        try:
            await super().pass_on(send)
            self._outcome = "answered"
        except StreamBrokenError as error:
            self._outcome = "truncated" if error.truncated else "broken"
            raise

    async def aclose(self) -> None:
        if self._outcome == "left" and self._last and b"[DONE]" in self._last[-1]:
            self._outcome = "answered"  # its reader knew that nothing would follow
        await super().aclose()

    def _send_noted(self, chunk: bytes) -> Awaitable[None]:
        times = self._times
        times.append(perf_counter())
        if len(times) == _MAX_CHUNK_TIMES:
            self._count_gaps(_AT_THE_END)
        self._note_chunk(chunk)
        return self._send(chunk)

    def _note_time(self) -> None:
        self._times.append(perf_counter())
        if len(self._times) == _MAX_CHUNK_TIMES:
            self._count_gaps(_AT_THE_END)

    def _count_gaps(self, but: int) -> None:
        """Count gaps between chunks, except the latest `but`."""
        times = self._times
        taken = times[: len(times) - but]
        self._over.answers.gaps.observe_values(list(map(sub, taken[1:], taken)))
        del times[: max(len(times) - but - 1, 0)]

    def _on_usage(self, used: TokenUsage) -> None:
        last = list(self._last)
        self._count_gaps(len(last))
        gaps = self._over.answers.gaps
        gap_of = pairwise(self._times)
        for chunk in last[len(last) - len(self._times) + 1 :]:
            before, after = next(gap_of)
            if count_text_deltas(chunk):
                gaps.observe_value(after - before)
        self._over(used, self._outcome)
        if self.journal is not None:
            if used.estimated and not used.prompt_tokens:
                used.prompt_tokens = self._prompt_tokens or 0
            self.journal.add("tokens", used)


def _price_of(pricing: ModelPricing | None) -> PriceOf | None:
    if pricing is None:
        return None
    return lambda model, prompt, completion: (pricing.cost(prompt, completion), pricing.currency)


def journal_token_usage(request: Request, reply: Reply) -> None:
    """Have the request's journal say what its answer used, by the worker's word; a stream's at its end."""
    if reply.chunks is not None:
        if isinstance(reply.chunks, MeasuredStream):
            reply.chunks.journal = request.journal
    elif reply.used is not None:
        request.journal.add("tokens", reply.used)
