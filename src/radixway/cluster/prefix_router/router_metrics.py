"""A router's metrics in Ray, counted locally and flushed once a second at most."""

import asyncio
from collections import Counter
from collections.abc import Callable

from ray.util import metrics

_EVERY_S = 1.0


class PrefixRouterMetrics:
    """Metrics of one router; belongs to its event loop."""

    def __init__(self, app: str, deployment: str, state: Callable[[], tuple[int, bool]]) -> None:
        """`state`: blocks that are remembered, and whether the router is alone."""
        self._state = state
        tags = {"application": app, "deployment": deployment}

        def counter(name: str, text: str, *more: str) -> metrics.Counter:
            return metrics.Counter(name, text, (*tags, *more)).set_default_tags(tags)

        def gauge(name: str, text: str) -> metrics.Gauge:
            return metrics.Gauge(name, text, tuple(tags)).set_default_tags(tags)

        self._choices = counter(
            "radixway_router_choices",
            "Requests for which a replica was chosen, by why it was this one.",
            "reason",
        )
        self._prompt_tokens = counter(
            "radixway_router_prompt_tokens", "Prompt tokens of requests, estimated by their length."
        )
        self._seen_tokens = counter(
            "radixway_router_seen_tokens", "Of those, what the chosen replicas had seen before."
        )
        self._blocks = gauge(
            "radixway_router_blocks", "Blocks of prompts that this router remembers, of all replicas."
        )
        self._is_alone = gauge(
            "radixway_router_alone", "1 while the actor that shares prefixes among routers does not answer."
        )
        self._reasons: Counter[str] = Counter()
        self._tokens = self._seen = 0
        self._handing_over: asyncio.TimerHandle | None = None

    def record_choice(self, reason: str, tokens: int, seen_tokens: int) -> None:
        """A replica was chosen for a prompt of so many tokens, and why."""
        self._reasons[reason] += 1
        self._tokens += tokens
        self._seen += seen_tokens
        if self._handing_over is None:
            loop = asyncio.get_running_loop()
            self._handing_over = loop.call_later(_EVERY_S, self._flush_counts)

    def _flush_counts(self) -> None:
        self._handing_over = None
        for reason, count in self._reasons.items():
            self._choices.inc(count, tags={"reason": reason})
        self._reasons.clear()
        if self._tokens:
            self._prompt_tokens.inc(self._tokens)
        if self._seen:
            self._seen_tokens.inc(self._seen)
        self._tokens = self._seen = 0
        blocks, alone = self._state()
        self._blocks.set(blocks)
        self._is_alone.set(alone)
