"""The spans of a traced request within its caller's: its wait, prefill and decoding."""

from collections.abc import Iterator
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
from radixway.engine.generation_stream import GenerationStream
from radixway.engine.server.http_exchange import HttpExchange, TracedRequest

_OPERATIONS = dict.fromkeys(("/v1/chat/completions", "/v1/messages", "/v1/responses"), "chat")


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
    root = _root_span(traced, exchange, path, model)
    stages = [stage for each in traced.generations for stage in _request_stages(each, traced.origin)]
    tracing.export_trace(partial(build_spans, traced.trace, root, stages, root.began_ns, _describe_stage))


def _root_span(traced: TracedRequest, exchange: HttpExchange, path: str, model: str) -> TraceSpan:
    trace, caller = traced.trace, traced.trace.caller
    requests = [generation.request for generation in traced.generations]
    epoch_ns = int(traced.began_at * 1e9)
    fields: dict[str, Value] = {
        "http.request.method": exchange.method,
        "http.route": path,
        "http.response.status_code": exchange.status,
        "radixway.request_id": exchange.request_id,
    }
    if requests:
        fields |= {
            "gen_ai.provider.name": "radixway",
            "gen_ai.operation.name": _OPERATIONS.get(path, "text_completion"),
            "gen_ai.response.model": model,
            "gen_ai.usage.input_tokens": sum(each.prompt_len for each in requests),
            "gen_ai.usage.output_tokens": sum(each.completion_tokens for each in requests),
            "gen_ai.response.finish_reasons": tuple(
                each.finish.type if each.finish is not None else "abort" for each in requests
            ),
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


def _request_stages(generation: GenerationStream, origin: float) -> Iterator[TimedStage]:
    """Its wait, its prefill, its decoding, as far as it came. Times of 0 are of what has not happened."""
    request = generation.request

    def stage(name: str, began_at: float, ended_at: float, **fields: Value) -> TimedStage:
        ended_s = ended_at - origin if ended_at else None
        return TimedStage(name, began_at - origin, ended_s, fields, False, 0)

    yield stage("queue", generation.submitted_at, request.begun_at or request.ended_at)
    if not request.begun_at:
        return
    yield stage(
        "prefill",
        request.begun_at,
        request.first_token_at or request.ended_at,
        prompt_tokens=request.prompt_len,
        cached_tokens=max(0, request.cached_tokens),
        host_tokens=request.host_tokens,
        disk_tokens=request.disk_tokens,
        remote_tokens=request.remote_tokens,
    )
    if request.first_token_at:
        completion_tokens = request.completion_tokens
        yield stage("decode", request.first_token_at, request.ended_at, completion_tokens=completion_tokens)


def _describe_stage(stage: TimedStage) -> tuple[str, Kind, dict[str, Value]]:
    return stage.name, "internal", {f"radixway.{name}": value for name, value in stage.fields.items()}
