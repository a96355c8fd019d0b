"""The eight figures at the head of a frame: what each is called, says and draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from radixway.telemetry import Figures
from radixway.top.words import number, seconds, share


@dataclass(frozen=True, slots=True)
class Tile:
    """One of them."""

    label: str
    says: Callable[[Figures], str]
    draws: Callable[[Figures], float | None]
    """What its line is made of."""


def _two(first: str, second: str) -> str:
    return f"{first} / {second}"


TILES = (
    Tile("requests/s", lambda now: number(now.requests_per_s), lambda now: now.requests_per_s),
    Tile(
        "tokens/s", lambda now: number(now.completion_tokens_per_s), lambda now: now.completion_tokens_per_s
    ),
    Tile(
        "first token p50/95",
        lambda now: _two(seconds(now.first_token_p50_s), seconds(now.first_token_p95_s)),
        lambda now: now.first_token_p50_s,
    ),
    Tile(
        "next token p50/95",
        lambda now: _two(seconds(now.between_tokens_p50_s), seconds(now.between_tokens_p95_s)),
        lambda now: now.between_tokens_p50_s,
    ),
    Tile(
        "in hand / queued",
        lambda now: _two(number(now.in_flight), number(now.queued)),
        lambda now: now.in_flight,
    ),
    Tile(
        "prefix hits exp/had",
        lambda now: _two(share(now.predicted_hits), share(now.reported_hits)),
        lambda now: now.reported_hits,
    ),
    Tile("semantic hits", lambda now: share(now.semantic_hits), lambda now: now.semantic_hits),
    Tile(
        "errors / refused",
        lambda now: _two(number(now.errors_per_s), number(now.refused_per_s)),
        lambda now: now.errors_per_s + now.refused_per_s,
    ),
)
"""Of latencies the median and the 95th percentile; prefix hits as the gateway expected and the worker had."""
