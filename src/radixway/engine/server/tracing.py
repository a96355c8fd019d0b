"""What a traced request did in the engine, as spans within its caller's: its wait, prefill and decoding."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from time import perf_counter, time

from radixway.engine.generation import Generation, Passed
from radixway.engine.server.exchange import Exchange
from radixway.telemetry.tracing import Caller, Span, Timed, Trace, Tracing, spans_of
from radixway.telemetry.tracing.span import Kind, Value

_OPERATIONS = {"/v1/chat/completions": "chat"}


@dataclass(slots=True)
class TracedRequest:
    """One HTTP request while it is answered, of which everything will be told."""

    trace: Trace
    generations: Sequence[Generation] = ()
    began_at: float = field(default_factory=time)
    origin: float = field(default_factory=perf_counter)


def begin(tracing: Tracing | None, caller: Caller | None) -> TracedRequest | None:
    """None where nobody wants to see it. Whoever asks an engine is believed: a gateway does."""
    if tracing is None:
        return None
    trace = tracing.begin(caller, believed=True)
    return TracedRequest(trace) if trace.sampled else None


def end(tracing: Tracing, traced: TracedRequest, exchange: Exchange, path: str, model: str) -> None:
    """It has been answered; `path`: one of ours."""
    passed = [each.passed for each in traced.generations]
    root = _root(traced, exchange, path, model, passed)
    tracing.end(partial(_spans, traced, root, passed))


def _root(traced: TracedRequest, exchange: Exchange, path: str, model: str, passed: Sequence[Passed]) -> Span:
    trace, caller = traced.trace, traced.trace.caller
    epoch_ns = int(traced.began_at * 1e9)
    fields: dict[str, Value] = {
        "http.request.method": exchange.method,
        "http.route": path,
        "http.response.status_code": exchange.status,
        "radixway.request_id": exchange.request_id,
    }
    if passed:
        fields |= {
            "gen_ai.provider.name": "radixway",
            "gen_ai.operation.name": _OPERATIONS.get(path, "text_completion"),
            "gen_ai.response.model": model,
            "gen_ai.usage.input_tokens": sum(each.prompt_tokens for each in passed),
            "gen_ai.usage.output_tokens": sum(each.completion_tokens for each in passed),
            "gen_ai.response.finish_reasons": tuple(each.finish or "abort" for each in passed),
        }
    # Taken before the last byte left, so that no caller has seen the end of it earlier than that.
    ended_at = exchange.ended_at or perf_counter()
    return Span(
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


def _spans(traced: TracedRequest, root: Span, passed: Sequence[Passed]) -> list[Span]:
    stretches = [stretch for each in passed for stretch in _stretches(each, traced.origin)]
    return spans_of(traced.trace, root, stretches, root.began_ns, _drawn)


def _stretches(passed: Passed, origin: float) -> Iterator[Timed]:
    """Its wait, its prefill, its decoding, as far as it came."""

    def stretch(name: str, began_at: float, ended_at: float, **fields: Value) -> Timed:
        ended_s = ended_at - origin if ended_at else None
        return Timed(name, began_at - origin, ended_s, fields, False, 0)

    yield stretch("queue", passed.submitted_at, passed.begun_at or passed.ended_at)
    if not passed.begun_at:
        return
    yield stretch(
        "prefill",
        passed.begun_at,
        passed.first_token_at or passed.ended_at,
        prompt_tokens=passed.prompt_tokens,
        cached_tokens=passed.cached_tokens,
        host_tokens=passed.host_tokens,
        disk_tokens=passed.disk_tokens,
        remote_tokens=passed.remote_tokens,
    )
    if passed.first_token_at:
        yield stretch(
            "decode", passed.first_token_at, passed.ended_at, completion_tokens=passed.completion_tokens
        )


def _drawn(stretch: Timed) -> tuple[str, Kind, dict[str, Value]]:
    return stretch.name, "internal", {f"radixway.{name}": value for name, value in stretch.fields.items()}
