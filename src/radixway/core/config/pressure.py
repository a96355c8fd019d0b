"""Keys under `routing` that say what happens when there is more to do than workers can take."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from radixway.core.config.base import ConfigSection


class QueueConfig(ConfigSection):
    """Requests that wait because every worker of their model is at its limit."""

    size: int = Field(default=256, ge=0)
    """Requests that may wait, of all models together. With 0 they are refused at once."""
    order: Literal["fcfs", "shortest_uncached_first"] = "fcfs"
    """Who goes first among requests of one priority: by arrival, or who has the fewest tokens to prefill."""
    aging_s: float = Field(default=10.0, gt=0)
    """Seconds of waiting that weigh as much as a step of priority, or as 1,000 uncached tokens more."""
    timeout_s: float = Field(default=60.0, gt=0)
    """How long a request waits before it is refused."""
    most_priority: int = Field(default=10, ge=0)
    """Priorities that clients give are taken to lie between this and its negative."""
    lower_priority_first: bool = False
    """vLLM's sense of `priority`; SGLang's, Dynamo's and our engine's is that higher goes first."""

    @property
    def least_priority(self) -> int:
        """The priority of what goes after everything else."""
        return self.most_priority if self.lower_priority_first else -self.most_priority


class BreakerConfig(ConfigSection):
    """The circuit breaker: a worker that passes its health checks yet fails its requests is asked last."""

    failures_in_row: int = Field(default=2, ge=1)
    """Requests broken in a row, without an answer, that open the breaker."""
    failure_share: float = Field(default=0.5, gt=0, le=1)
    """Share of broken requests and 5xx answers that opens it too …"""
    window_s: float = Field(default=30.0, gt=0)
    """… in a window of so many seconds, which begins with a failure …"""
    least_requests: int = Field(default=10, ge=1)
    """… once so many requests have ended in it."""
    open_s: float = Field(default=0.5, gt=0)
    """How long it stays open before one request may probe the worker; doubled by each probe that fails."""
    open_max_s: float = Field(default=60.0, gt=0)
    """The longest that a worker is left alone."""


class HedgeConfig(ConfigSection):
    """A second copy of a request to another worker when the first byte is late."""

    after_s: float | None = Field(default=None, gt=0)
    """Seconds without a first byte after which the copy is sent."""
    after_percentile: float | None = Field(default=None, gt=0, lt=100)
    """The same, learnt: that share of the model's recent requests had their first byte by then."""
    most_share: float = Field(default=0.05, gt=0, le=1)
    """Copies per request, at most."""
    whole_replies: bool = False
    """Also where the answer does not stream, so that its first byte comes when all the work is done."""

    @model_validator(mode="after")
    def _check_delay(self) -> Self:
        if self.after_s is None and self.after_percentile is None:
            raise ValueError(
                "give after_s, after_percentile or both (the first is then used until enough is known)"
            )
        return self


def check_fallbacks(fallbacks: dict[str, str]) -> dict[str, str]:
    """Return `fallbacks`. Raises ValueError if following it from some model comes round again."""
    for first in fallbacks:
        seen = [first]
        while (model := fallbacks.get(seen[-1])) is not None:
            if model in seen:
                raise ValueError(f"the fallbacks go round in a circle: {' → '.join([*seen, model])}")
            seen.append(model)
    return fallbacks
