"""The spans of a traced request within its caller's: its wait, prefill and decoding."""

from collections.abc import Iterator, Sequence
from functools import partial
from time import perf_counter

from radixway.core.telemetry.tracing import (
    CallerSpan,
    RequestTracer,
    TimedStage,
    TraceSpan,
    build_spans,
)
from radixway.core.telemetry.tracing.spans import Kind, Value
from radixway.engine.generation_stream import RequestTimeline
from radixway.engine.server.http_exchange import HttpExchange, TracedRequest

_OPERATIONS = {"/v1/chat/completions": "chat"}


def start_request_trace(tracing: RequestTracer | None, caller: CallerSpan | None) -> TracedRequest | None:
    """Start a trace within `caller`; None if it is not sampled. A gateway's sampling decision is followed."""
    if tracing is None:
        return None
    trace = tracing.start_trace(caller, believed=True)
    return TracedRequest(trace) if trace.sampled else None


def finish_request_trace(
    tracing: RequestTracer, traced: TracedRequest, exchange: HttpExchange, path: str, model: str
) -> None:
    """Export the spans of a request that has been answered; `path` is its route."""
    timelines = [each.timeline for each in traced.generations]
    root = _root_span(traced, exchange, path, model, timelines)
    tracing.export_trace(partial(_child_spans, traced, root, timelines))


def _root_span(
    traced: TracedRequest, exchange: HttpExchange, path: str, model: str, timelines: Sequence[RequestTimeline]
) -> TraceSpan:
    trace, caller = traced.trace, traced.trace.caller
    epoch_ns = int(traced.began_at * 1e9)
    fields: dict[str, Value] = {
        "http.request.method": exchange.method,
        "http.route": path,
        "http.response.status_code": exchange.status,
        "radixway.request_id": exchange.request_id,
    }
    if timelines:
        fields |= {
            "gen_ai.provider.name": "radixway",
            "gen_ai.operation.name": _OPERATIONS.get(path, "text_completion"),
            "gen_ai.response.model": model,
            "gen_ai.usage.input_tokens": sum(each.prompt_tokens for each in timelines),
            "gen_ai.usage.output_tokens": sum(each.completion_tokens for each in timelines),
            "gen_ai.response.finish_reasons": tuple(each.finish or "abort" for each in timelines),
        }
    # Taken before the last byte left, so that no caller has seen the end of it earlier than that.
    ended_at = exchange.ended_at or perf_counter()
    return TraceSpan(
        trace_id=trace.trace_id,
        span_id=trace.span_id,
        parent_id=0 if caller is None else caller.span_id,
        parent_is_remote=caller is not None,
        state=b"" if caller is None else caller.state,
        name=f"{exchange.method} {path}",
        kind="server",
        began_ns=epoch_ns,
        ended_ns=epoch_ns + int((ended_at - traced.origin) * 1e9),
        fields=fields,
        failed=str(exchange.status) if exchange.status >= 500 else None,
    )


def _child_spans(
    traced: TracedRequest, root: TraceSpan, timelines: Sequence[RequestTimeline]
) -> list[TraceSpan]:
    stages = [stage for each in timelines for stage in _request_stages(each, traced.origin)]
    return build_spans(traced.trace, root, stages, root.began_ns, _describe_stage)


def _request_stages(timeline: RequestTimeline, origin: float) -> Iterator[TimedStage]:
    """Its wait, its prefill, its decoding, as far as it came."""

    def stage(name: str, began_at: float, ended_at: float, **fields: Value) -> TimedStage:
        ended_s = ended_at - origin if ended_at else None
        return TimedStage(name, began_at - origin, ended_s, fields, False, 0)

    yield stage("queue", timeline.submitted_at, timeline.begun_at or timeline.ended_at)
    if not timeline.begun_at:
        return
    yield stage(
        "prefill",
        timeline.begun_at,
        timeline.first_token_at or timeline.ended_at,
        prompt_tokens=timeline.prompt_tokens,
        cached_tokens=timeline.cached_tokens,
        host_tokens=timeline.host_tokens,
        disk_tokens=timeline.disk_tokens,
        remote_tokens=timeline.remote_tokens,
    )
    if timeline.first_token_at:
        yield stage(
            "decode",
            timeline.first_token_at,
            timeline.ended_at,
            completion_tokens=timeline.completion_tokens,
        )


def _describe_stage(stage: TimedStage) -> tuple[str, Kind, dict[str, Value]]:
    return stage.name, "internal", {f"radixway.{name}": value for name, value in stage.fields.items()}
