"""What a gateway sees of its models' requests, as the planner counts it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Awaitable, Callable

from radixway.pipeline import ANY_MODEL, Metered, Next, Reply, Request, Used, used_of
from radixway.routing import Choice, PairChoice, Registry
from radixway.scale.planner.traffic import Traffic

OTHER = "default"
"""Stands for all models that no worker names."""


class Watch:
    """Around the dispatch: counts by model what comes and what becomes of it. Belongs to one event loop."""

    def __init__(self, dispatch: Next, registry: Registry) -> None:
        self._dispatch = dispatch
        self._registry = registry
        self._traffic: defaultdict[str, Traffic] = defaultdict(Traffic)
        self._inside: defaultdict[str, int] = defaultdict(int)

    def __call__(self, request: Request) -> Awaitable[Reply]:
        """What the dispatch answers."""
        return self._watched(request, self._model_of(request))

    def inside(self, model: str) -> int:
        """Requests that wait for a worker or for its first token."""
        return self._inside[model]

    def take(self, model: str, span_s: float) -> Traffic:
        """What happened since it was last taken, `span_s` ago."""
        traffic = self._traffic.pop(model, None) or Traffic()
        traffic.span_s = span_s
        return traffic

    async def _watched(self, request: Request, model: str) -> Reply:
        if not request.tried:
            self._traffic[model].came()
        self._inside[model] += 1
        try:
            reply = await self._dispatch(request)
        finally:
            self._inside[model] -= 1
        if reply.status != 200:
            return reply
        ended = self._ending(request, model)
        if reply.chunks is None:
            ended(used_of(reply.body, generates=request.endpoint.generates) or Used(), None)
            return reply
        journal = request.journal
        ttft_s = journal.elapsed_s()
        self._traffic[model].first_token(ttft_s)
        reply.chunks = Metered(
            reply.chunks, lambda used: ended(used, journal.elapsed_s() - ttft_s), several=True
        )
        request.opened.append(reply.chunks)
        return reply

    def _ending(self, request: Request, model: str) -> Callable[[Used, float | None], None]:
        choice = _choice_of(request)

        def ended(used: Used, decode_s: float | None) -> None:
            traffic = self._traffic[model]
            if used.prompt_tokens:
                traffic.placed(used.prompt_tokens, used.prompt_tokens - used.cached_tokens)
            elif choice is not None and choice.request.tokens:
                traffic.placed(choice.request.tokens, choice.request.tokens - choice.cached_tokens)
            traffic.ended(used.completion_tokens, decode_s)

        return ended

    def _model_of(self, request: Request) -> str:
        """The model asked for, if somebody is known to serve it: names that clients make up do not count."""
        model = request.model
        if model is None or model == ANY_MODEL:
            ready = self._registry.candidates(None)
            return ready[0].models[0] if ready and ready[0].models else OTHER
        return model if any(model in worker.models for worker in self._registry.candidates(model)) else OTHER


def _choice_of(request: Request) -> Choice | None:
    for _, _, said in reversed(request.journal.entries):
        if isinstance(said, PairChoice):
            return said.answers
        if isinstance(said, Choice):
            return said
    return None
