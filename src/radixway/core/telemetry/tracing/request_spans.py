"""A request's spans, from its journal: what of the journal may be seen elsewhere, and under which names.

Names of attributes are OpenTelemetry's where it has some (HTTP, GenAI), and `radixway.…` otherwise. Only what
is listed here goes out: a journal may grow without its new fields being sent anywhere.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from radixway.core.telemetry.journal import Journal
from radixway.core.telemetry.trace_record import TimedStage, TraceRecord
from radixway.core.telemetry.tracing.spans import Kind, SpanEvent, TraceSpan, Value, build_spans

_EVENTS: Mapping[str, tuple[str, ...]] = {
    "client_left": (),
    "error": ("code", "status"),
    "fallback": ("model", "fallback", "reason"),
    "guard_answer": ("rule", "action", "outcome"),
    "guard_clearing": ("model", "action"),
    "guard_error": ("guard", "action"),
    "guard_jailbreak": ("action", "type", "confidence"),
    "guard_pii": ("count",),
    "hedge": ("worker", "after_s"),
    "hop": ("model", "worker", "priority"),
    "objective": ("ttft_s", "expected_s", "missed"),
    "prefill": ("worker", "status", "handed_on"),
    "resume": ("known", "worker"),
    "retry": ("attempt", "worker", "reason"),
    "retry_aborted": ("attempt",),
    "select": ("worker", "policy", "reason", "expected_cached_tokens"),
    "semantic": (
        *("model", "category", "confidence", "reason", "rule", "reasoning", "reasoning_reason", "choice"),
        *("entropy", "split", "failed", "blocked"),
    ),
    "semantic_cache": ("outcome", "reason", "similarity", "age_s", "refused"),
    "semantic_cache_keep": ("kept", "reason"),
    "semantic_fallback": ("model", "after"),
    "trajectory": ("known", "tokenized", "recorded", "tokens", "whole", "reason"),
}
"""Fields shown of each journal step; other steps are hidden."""
_NAMES = {
    "error": "error.type",
    "host": "server.address",
    "port": "server.port",
    "status": "http.response.status_code",
    "prompt_tokens": "gen_ai.usage.input_tokens",
    "completion_tokens": "gen_ai.usage.output_tokens",
    "cached_tokens": "gen_ai.usage.cache_read.input_tokens",
    "estimated": "radixway.usage_is_estimated",
}
_USAGE = ("prompt_tokens", "completion_tokens", "cached_tokens", "estimated")
_MODEL = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/+-]{0,127}")
"""A plausible model name; clients may send anything there."""
MAX_PROMPT_BYTES = 64 * 1024
"""Bytes of what was asked that are shown; no more of it may wait for an export."""


@dataclass(frozen=True, slots=True)
class FinishedRequest:
    """Facts about a request at its end."""

    surface: str
    operation: str
    """OpenTelemetry's `gen_ai.operation.name`."""
    method: str | None
    """None: no client asked over HTTP, but a job of ours."""
    path: str
    """The client's; or what kind of job it is."""
    tenant: str
    model: str | None
    resolved_model: str | None
    """The worker's model that answers, if known."""
    workers: tuple[str, ...]
    """Workers that were asked, in order."""
    status: int
    error: str | None
    first_byte_s: float | None
    total_s: float
    prompt: bytes | None = None
    """Prompt as sent to the worker, or its beginning, if it may be shown."""


def spans_of_request(journal: Journal, trace: TraceRecord, ended: FinishedRequest) -> list[TraceSpan]:
    """Make the spans of the request that has `ended`, and of what took time within it."""
    epoch_ns = int(journal.began_at * 1e9)
    caller, noted = trace.caller, trace.unverified
    route = _route_template(ended.path)
    entries = list(journal.entries)  # an answer that is kept is noted by its own task
    steps = [(step, at, entry if isinstance(entry, dict) else entry.explain()) for step, at, entry in entries]
    used = next((fields for step, _, fields in reversed(steps) if step == "tokens"), {})
    root = TraceSpan(
        trace_id=trace.trace_id,
        span_id=trace.span_id,
        parent_id=0 if caller is None else caller.span_id,
        parent_is_remote=caller is not None,
        state=b"" if caller is None else caller.state,
        name=route if ended.method is None else f"{ended.method} {route}",
        kind="internal" if ended.method is None else "server",
        began_ns=epoch_ns,
        ended_ns=epoch_ns + int(ended.total_s * 1e9),
        fields=_request_span_fields(journal, ended, route, used),
        links=() if noted is None else ((noted.trace_id, noted.span_id),),
        failed=ended.error or str(ended.status) if ended.status >= 500 else None,
    )
    root.events = [
        SpanEvent(step, epoch_ns + int(at * 1e9), _select_fields(fields, _EVENTS[step]))
        for step, at, fields in steps
        if step in _EVENTS
    ]
    stages = [
        *trace.stages,
        *(
            TimedStage("queue", at - fields["waited_s"], at, {"ahead": fields["ahead"]}, False, 0)
            for step, at, fields in steps
            if step == "queue"
        ),
    ]
    return build_spans(trace, root, stages, epoch_ns, _stage_span_fields)


def _stage_span_fields(stretch: TimedStage) -> tuple[str, Kind, dict[str, Value]]:
    return (
        stretch.name,
        "client" if stretch.number else "internal",
        _select_fields(stretch.fields, stretch.fields),
    )


def _request_span_fields(
    journal: Journal, ended: FinishedRequest, route: str, used: Mapping[str, Any]
) -> dict[str, Value]:
    fields: dict[str, Value] = {
        "http.response.status_code": ended.status,
        "gen_ai.provider.name": "radixway",
        "gen_ai.operation.name": ended.operation,
        "radixway.request_id": journal.request_id,
        "radixway.surface": ended.surface,
        "radixway.tenant": ended.tenant,
    }
    if ended.method is not None:
        fields |= {"http.request.method": ended.method, "http.route": route}
    if ended.model is not None and _MODEL.fullmatch(ended.model):
        fields["gen_ai.request.model"] = ended.model
    if ended.resolved_model is not None:
        fields["gen_ai.response.model"] = ended.resolved_model
    if ended.workers:
        fields["radixway.worker"] = ended.workers[-1]
    if ended.first_byte_s is not None:
        fields["radixway.first_byte_ms"] = round(ended.first_byte_s * 1e3, 3)
    if ended.error is not None:
        fields["error.type"] = ended.error
    fields |= _select_fields(used, _USAGE)
    if ended.prompt is not None:
        fields["gen_ai.input.messages"] = ended.prompt.decode("utf-8", "replace")
    return fields


def _select_fields(fields: Mapping[str, Any], names: Any) -> dict[str, Value]:
    shown: dict[str, Value] = {}
    for name in names:
        value = fields.get(name)
        if isinstance(value, list | tuple):
            value = tuple(map(str, value))
        if isinstance(value, str | bool | int | float | tuple) and value != ():
            shown[_NAMES.get(name, f"radixway.{name}")] = value
    return shown


def _route_template(path: str) -> str:
    plain = path.partition("?")[0]
    if plain.startswith("/sessions/"):
        parts = plain.split("/")
        parts[2] = "{session_id}"
        return "/".join(parts)
    return plain
