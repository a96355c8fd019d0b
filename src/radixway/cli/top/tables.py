"""What the screen and a frame of text have in common: workers and requests as rows, figures as tiles."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import localtime, strftime

from radixway.cli.top.gateway_view import SeenRequest, SeenWorker
from radixway.core.telemetry import GatewayStats, WorkerStats

WORKER_COLUMNS = ("worker", "state", "hand", "req/s", "tok/s", "KV", "hits", "models")
REQUEST_COLUMNS = ("began", "model", "worker", "code", "TTFT", "total", "in/had/out", "")
"""Each is as wide as what stands in it; the last takes what is left, and alone is cut where it is shown."""

_WORKER_WIDTH = 40
_REQUEST_WORKER_WIDTH = 16
_MODEL_WIDTH = 12
_PORT_WIDTH = 6
_LEVELS = "▁▂▃▄▅▆▇█"
UNKNOWN = "–"
_IN_ASCII = str.maketrans(_LEVELS + "–…·", "_.-=+*#@-~.")


def worker_row(worker: SeenWorker, figures: WorkerStats | None) -> list[str]:
    """Return the words of `worker`, in the order of the columns."""
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
    """Return the words of `request`, in the order of the columns."""
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


def to_ascii(text: str) -> str:
    """Return `text` in ASCII, for terminals and files without Unicode."""
    return text.translate(_IN_ASCII).encode("ascii", "replace").decode()


def sparkline(values: Sequence[float | None], width: int) -> str:
    """Draw the latest `width` of `values` from 0 to their largest, the newest on the right; None is a gap."""
    shown = list(values)[-width:] if width > 0 else []
    top = max((value for value in shown if value is not None), default=0.0)
    return "".join(" " if value is None else _spark_level(value, top) for value in shown).rjust(width)


def _spark_level(value: float, top: float) -> str:
    if top <= 0 or value <= 0:
        return _LEVELS[0]
    return _LEVELS[min(int(value / top * len(_LEVELS)), len(_LEVELS) - 1)]


def format_number(value: float | None) -> str:
    """Format `value`, a count or a rate, in at most five characters: `0`, `0.4`, `12.3`, `1234`, `12.3k`."""
    if value is None:
        return UNKNOWN
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e4)):
        if value >= size:
            shown = value / (1e3 if unit == "k" else size)
            return f"{shown:.1f}{unit}" if shown < 100 else f"{shown:.0f}{unit}"
    if value >= 100 or value == int(value):
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 0.1 else f"{value:.2f}"


def format_seconds(value: float | None) -> str:
    """Format `value`, in seconds, as people say it: `4.2ms`, `130ms`, `1.3s`, `2m`."""
    if value is None:
        return UNKNOWN
    if value < 0.01:
        return f"{value * 1e3:.1f}ms"
    if value < 1:
        return f"{value * 1e3:.0f}ms"
    return f"{value:.1f}s" if value < 100 else f"{value / 60:.0f}m"


def format_share(value: float | None) -> str:
    """Format `value`, a share of one, in percent."""
    return UNKNOWN if value is None else f"{value * 100:.0f}%"


def shorten_middle(text: str, width: int) -> str:
    """Return `text` in at most `width` characters, with its end: a worker's name ends with its port."""
    if len(text) <= width:
        return text
    return f"{text[: width - 1 - _PORT_WIDTH]}…{text[-_PORT_WIDTH:]}"


def strip_control(text: str, width: int | None = None) -> str:
    """Return `text` without control characters and escapes, cut to `width`."""
    harmless = "".join(char if char.isprintable() else "·" for char in text)
    if width is not None and len(harmless) > width:
        return harmless[: max(width - 1, 0)] + "…"
    return harmless


@dataclass(frozen=True, slots=True)
class FigureTile:
    """A figure at the head of a frame: what it is called, says and draws."""

    label: str
    says: Callable[[GatewayStats], str]
    draws: Callable[[GatewayStats], float | None]
    """The value that its line shows."""


def _pair(
    read: Callable[[GatewayStats], tuple[float | None, float | None]], form: Callable[[float | None], str]
) -> Callable[[GatewayStats], str]:
    """Return a text of two figures of a reading, each written by `form`."""
    return lambda now: " / ".join(map(form, read(now)))


TILES = (
    FigureTile("requests/s", lambda now: format_number(now.requests_per_s), lambda now: now.requests_per_s),
    FigureTile(
        "tokens/s",
        lambda now: format_number(now.completion_tokens_per_s),
        lambda now: now.completion_tokens_per_s,
    ),
    FigureTile(
        "first token p50/95",
        _pair(lambda now: (now.first_token_p50_s, now.first_token_p95_s), format_seconds),
        lambda now: now.first_token_p50_s,
    ),
    FigureTile(
        "next token p50/95",
        _pair(lambda now: (now.between_tokens_p50_s, now.between_tokens_p95_s), format_seconds),
        lambda now: now.between_tokens_p50_s,
    ),
    FigureTile(
        "in flight / queued",
        _pair(lambda now: (now.in_flight, now.queued), format_number),
        lambda now: now.in_flight,
    ),
    FigureTile(
        "prefix hits exp/had",
        _pair(lambda now: (now.predicted_hits, now.reported_hits), format_share),
        lambda now: now.reported_hits,
    ),
    FigureTile("semantic hits", lambda now: format_share(now.semantic_hits), lambda now: now.semantic_hits),
    FigureTile(
        "errors / refused",
        _pair(lambda now: (now.errors_per_s, now.refused_per_s), format_number),
        lambda now: now.errors_per_s + now.refused_per_s,
    ),
)
"""Latencies are medians and 95th percentiles; prefix hits are the gateway's prediction and the worker's
report."""
