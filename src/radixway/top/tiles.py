"""The eight figures at the head of a frame: what each is called, says and draws."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from radixway.telemetry import GatewayStats
from radixway.top.words import format_number, format_seconds, format_share


@dataclass(frozen=True, slots=True)
class FigureTile:
    """One of them."""

    label: str
    says: Callable[[GatewayStats], str]
    draws: Callable[[GatewayStats], float | None]
    """What its line is made of."""


def _join_pair(first: str, second: str) -> str:
    return f"{first} / {second}"


TILES = (
    FigureTile("requests/s", lambda now: format_number(now.requests_per_s), lambda now: now.requests_per_s),
    FigureTile(
        "tokens/s",
        lambda now: format_number(now.completion_tokens_per_s),
        lambda now: now.completion_tokens_per_s,
    ),
    FigureTile(
        "first token p50/95",
        lambda now: _join_pair(format_seconds(now.first_token_p50_s), format_seconds(now.first_token_p95_s)),
        lambda now: now.first_token_p50_s,
    ),
    FigureTile(
        "next token p50/95",
        lambda now: _join_pair(
            format_seconds(now.between_tokens_p50_s), format_seconds(now.between_tokens_p95_s)
        ),
        lambda now: now.between_tokens_p50_s,
    ),
    FigureTile(
        "in hand / queued",
        lambda now: _join_pair(format_number(now.in_flight), format_number(now.queued)),
        lambda now: now.in_flight,
    ),
    FigureTile(
        "prefix hits exp/had",
        lambda now: _join_pair(format_share(now.predicted_hits), format_share(now.reported_hits)),
        lambda now: now.reported_hits,
    ),
    FigureTile("semantic hits", lambda now: format_share(now.semantic_hits), lambda now: now.semantic_hits),
    FigureTile(
        "errors / refused",
        lambda now: _join_pair(format_number(now.errors_per_s), format_number(now.refused_per_s)),
        lambda now: now.errors_per_s + now.refused_per_s,
    ),
)
"""Of latencies the median and the 95th percentile; prefix hits as the gateway expected and the worker had."""
