"""Workers and requests as rows of words, the same on the screen and in a frame of text.

The eight figures at the head of a frame: what each is called, says and draws.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from time import localtime, strftime

from radixway.cli.top.gateway_reader import SeenRequest, SeenWorker
from radixway.cli.top.text_format import (
    UNKNOWN,
    format_number,
    format_seconds,
    format_share,
    shorten_middle,
    strip_control,
)
from radixway.core.telemetry import GatewayStats, WorkerStats

WORKER_COLUMNS = ("worker", "state", "hand", "req/s", "tok/s", "KV", "hits", "models")
REQUEST_COLUMNS = ("began", "model", "worker", "code", "TTFT", "total", "in/had/out", "")
"""Each is as wide as what stands in it; the last takes what is left, and alone is cut where it is shown."""

_WORKER_WIDTH = 40
_REQUEST_WORKER_WIDTH = 16
_MODEL_WIDTH = 12


def worker_row(worker: SeenWorker, figures: WorkerStats | None) -> list[str]:
    """The words of one worker, in the order of the columns."""
    state = worker.state if worker.breaker == "closed" else f"{worker.breaker.replace('_', '-')} breaker"
    hand = worker.in_flight + worker.in_flight_elsewhere
    return [
        shorten_middle(strip_control(worker.name), _WORKER_WIDTH),
        strip_control(state),
        f"{hand}/{worker.max_batch_size}" if worker.max_batch_size else str(hand),
        format_number(figures.requests_per_s if figures else None),
        format_number(figures.completion_tokens_per_s if figures else None),
        format_share(figures.kv_usage if figures else None),
        format_share(figures.reported_hits if figures else None),
        strip_control(", ".join(worker.models)),
    ]


def request_row(request: SeenRequest) -> list[str]:
    """The words of one request, in the order of the columns."""
    used = (request.prompt_tokens, request.cached_tokens, request.completion_tokens)
    odd = [flag for flag in request.flags if flag != "stream"]
    return [
        strftime("%H:%M:%S", localtime(request.began_at)),
        strip_control(request.model or request.asked or UNKNOWN, _MODEL_WIDTH),
        shorten_middle(strip_control(request.worker or UNKNOWN), _REQUEST_WORKER_WIDTH),
        str(request.status or UNKNOWN),
        format_seconds(None if request.ttft_ms is None else request.ttft_ms / 1e3),
        format_seconds(None if request.total_ms is None else request.total_ms / 1e3),
        "/".join(format_number(tokens) for tokens in used) if any(t is not None for t in used) else UNKNOWN,
        strip_control(" ".join(filter(None, (request.error, *odd)))),
    ]


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
        "in flight / queued",
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
