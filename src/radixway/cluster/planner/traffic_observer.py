"""Counts a gateway's requests by model for the planner."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable

from radixway.cluster.planner.traffic_window import TrafficWindow
from radixway.core.pipeline import ANY_MODEL, MeteredChunks, Next, Reply, Request, TokenUsage, read_usage
from radixway.routing import PairChoice, WorkerChoice, WorkerRegistry

OTHER = "default"
"""Stands for all models that no worker names."""


class TrafficObserver:
    """Around the dispatch: counts by model what comes and what becomes of it. Belongs to one event loop."""

    def __init__(self, dispatch: Next, registry: WorkerRegistry) -> None:
        self._dispatch = dispatch
        self._registry = registry
        self._traffic: defaultdict[str, TrafficWindow] = defaultdict(TrafficWindow)
        self._inside: defaultdict[str, int] = defaultdict(int)

    def __call__(self, request: Request) -> Awaitable[Reply]:
        """Dispatch `request` and count it."""
        return self._dispatch_observed(request, self._known_model(request))

    def count_inflight(self, model: str) -> int:
        """Requests that wait for a worker or for its first token."""
        return self._inside[model]

    def take_window(self, model: str, span_s: float) -> TrafficWindow:
        """Take the counts of `model` since the last call, `span_s` seconds ago."""
        traffic = self._traffic.pop(model, None) or TrafficWindow()
        traffic.span_s = span_s
        return traffic

    async def _dispatch_observed(self, request: Request, model: str) -> Reply:
        if not request.routing.failed_workers:
            self._traffic[model].on_arrival()
        self._inside[model] += 1
        try:
            reply = await self._dispatch(request)
        finally:
            self._inside[model] -= 1
        if reply.status != 200:
            return reply
        ended = self._make_end_hook(request, model)
        if reply.chunks is None:
            ended(read_usage(reply.body, generates=request.endpoint.generates) or TokenUsage(), None)
            return reply
        journal = request.journal
        ttft_s = journal.elapsed_s()
        self._traffic[model].on_first_token(ttft_s)
        reply.chunks = MeteredChunks(
            reply.chunks, lambda used: ended(used, journal.elapsed_s() - ttft_s), several=True
        )
        request.open_streams.append(reply.chunks)
        return reply

    def _make_end_hook(self, request: Request, model: str) -> Callable[[TokenUsage, float | None], None]:
        choice = _find_choice(request)

        def ended(used: TokenUsage, decode_s: float | None) -> None:
            traffic = self._traffic[model]
            if used.prompt_tokens:
                traffic.on_placed(used.prompt_tokens, used.prompt_tokens - used.cached_tokens)
            elif choice is not None and choice.request.tokens:
                traffic.on_placed(choice.request.tokens, choice.request.tokens - choice.cached_tokens)
            traffic.on_finished(used.completion_tokens, decode_s)

        return ended

    def _known_model(self, request: Request) -> str:
        """The model asked for, if somebody is known to serve it: names that clients make up do not count."""
        model = request.model
        if model is None or model == ANY_MODEL:
            ready = self._registry.candidates(None)
            return ready[0].models[0] if ready and ready[0].models else OTHER
        return model if any(model in worker.models for worker in self._registry.candidates(model)) else OTHER


def _find_choice(request: Request) -> WorkerChoice | None:
    for _, _, said in reversed(request.journal.entries):
        if isinstance(said, PairChoice):
            return said.answers
        if isinstance(said, WorkerChoice):
            return said
    return None
