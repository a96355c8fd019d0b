"""Workers and requests as rows of words, the same on the screen and in a frame of text."""

from __future__ import annotations

from time import localtime, strftime

from radixway.telemetry import WorkerFigures
from radixway.top.gateway import SeenRequest, SeenWorker
from radixway.top.words import UNKNOWN, number, plain, seconds, share

WORKER_COLUMNS = (
    ("worker", 24),
    ("state", 9),
    ("hand", 7),
    ("req/s", 6),
    ("tok/s", 6),
    ("KV", 5),
    ("hits", 5),
    ("models", 0),
)
"""Heads and widths; 0: whatever is left."""
REQUEST_COLUMNS = (
    ("began", 8),
    ("model", 12),
    ("worker", 16),
    ("code", 4),
    ("TTFT", 6),
    ("total", 6),
    ("in/had/out", 14),
    ("", 0),
)


def worker_row(worker: SeenWorker, figures: WorkerFigures | None) -> list[str]:
    """The words of one worker, in the order of the columns."""
    state = worker.state if worker.breaker == "closed" else f"{worker.breaker.replace('_', '-')} breaker"
    hand = worker.in_flight + worker.in_flight_elsewhere
    return [
        plain(worker.name),
        plain(state),
        f"{hand}/{worker.max_batch_size}" if worker.max_batch_size else str(hand),
        number(figures.requests_per_s if figures else None),
        number(figures.completion_tokens_per_s if figures else None),
        share(figures.kv_usage if figures else None),
        share(figures.reported_hits if figures else None),
        plain(", ".join(worker.models)),
    ]


def request_row(request: SeenRequest) -> list[str]:
    """The words of one request, in the order of the columns."""
    used = (request.prompt_tokens, request.cached_tokens, request.completion_tokens)
    odd = [flag for flag in request.flags if flag != "stream"]
    return [
        strftime("%H:%M:%S", localtime(request.began_at)),
        plain(request.model or request.asked or UNKNOWN),
        plain(request.worker or UNKNOWN),
        str(request.status or UNKNOWN),
        seconds(None if request.ttft_ms is None else request.ttft_ms / 1e3),
        seconds(None if request.total_ms is None else request.total_ms / 1e3),
        "/".join(number(tokens) for tokens in used) if any(t is not None for t in used) else UNKNOWN,
        plain(" ".join(filter(None, (request.error, *odd)))),
    ]
