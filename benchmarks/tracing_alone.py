"""What the parts of tracing and of a line in the log cost, each by itself, in one thread.

CPU time of that thread in the fastest of several rounds, so that little of it is what else the machine does.
What it costs a gateway, with all that lies between the parts, is what `tracing.py` measures.

    python benchmarks/tracing_alone.py              some seconds
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable
from time import thread_time_ns

from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from radixway.core.config.gateway import TracingConfig
from radixway.core.telemetry import Journal, log_fields
from radixway.core.telemetry.logs.setup import defer_record, render_json
from radixway.core.telemetry.tracing import FinishedRequest, TraceRecord, TraceSpan, spans_of_request
from radixway.core.telemetry.tracing.otlp import OtlpExporter
from radixway.core.telemetry.tracing.settings import resolve_settings
from report import print_table

FIELDS = {
    "request": "4f0e7d1c9b8a4f0e9d1c7b8a4f0e9d1c",
    "trace": "4bf92f3577b34da6a3ce929d0e0e4736",
    "tenant": "default",
    "surface": "openai.chat",
    "model": "m",
    "worker": "127.0.0.1:8000",
    "status": 200,
    "total_ms": 12.4,
    "first_byte_ms": 11.9,
    "attempts": 1,
    "prompt_tokens": 20,
    "completion_tokens": 3,
    "cached_tokens": 16,
}
"""Of the line that a request leaves."""
ENDED = FinishedRequest(
    surface="openai.chat",
    operation="chat",
    method="POST",
    path="/v1/chat/completions",
    tenant="default",
    model="m",
    resolved_model="m",
    workers=("127.0.0.1:8000",),
    status=200,
    error=None,
    first_byte_s=0.0119,
    total_s=0.0124,
)


def traced() -> tuple[Journal, TraceRecord]:
    """A request as it is with nothing configured but tracing: five spans."""
    journal = Journal("4f0e7d1c9b8a4f0e9d1c7b8a4f0e9d1c")
    trace = journal.trace = TraceRecord(None, sampled=True)
    journal.add("receive", surface="openai.chat", model="m", stream=False, bytes=2000)
    journal.add("select", worker="127.0.0.1:8000", policy="expected_time", reason="lowest", candidates=[])
    trace.add_stage("select", 0.0001, 0.0002, worker="127.0.0.1:8000")
    trace.add_stage("upstream", 0.0003, 0.012, number=1, worker="127.0.0.1:8000", status=200)
    trace.add_stage("dispatch", 0.0001, 0.012, holds=True)
    trace.add_stage("middleware Retry", 0.0001, 0.0121, holds=True)
    journal.add("tokens", prompt_tokens=20, completion_tokens=3, cached_tokens=16, estimated=False)
    journal.add("end", status=200, first_byte_ms=11.9, model="m")
    return journal, trace


def per_call_us(call: Callable[[], object], times: int, rounds: int) -> float:
    """CPU time of a call in the fastest of so many rounds."""
    fastest = 1 << 62
    for _ in range(rounds):
        began = thread_time_ns()
        for _ in range(times):
            call()
        fastest = min(fastest, thread_time_ns() - began)
    return fastest / times / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--times", type=int, default=2000)
    given = parser.parse_args()
    settings = resolve_settings(TracingConfig(endpoint="http://127.0.0.1:9"), {})
    assert settings is not None
    exporter = OtlpExporter(settings, service="radixway", role="gateway")
    journal, trace = traced()
    spans: list[TraceSpan] = spans_of_request(journal, trace, ENDED)
    log = logging.getLogger("radixway.requests.alone")
    log.propagate, log.handlers = False, [logging.NullHandler()]
    log.setLevel(logging.INFO)
    record = logging.LogRecord(log.name, logging.INFO, __file__, 0, "request", None, None)
    record.radixway_fields = FIELDS
    say = defer_record(record)

    def encoded() -> bytes:
        return encode_spans([exporter._to_readable_span(span) for span in spans]).SerializeToString()

    parts: list[tuple[str, str, Callable[[], object]]] = [
        (
            "not sampled: ids, and the header of its worker",
            "request",
            lambda: TraceRecord(None, sampled=False).propagation_lines(1),
        ),
        ("sampled: its spans", "exporting", lambda: spans_of_request(journal, trace, ENDED)),
        ("sampled: their bytes", "exporting", encoded),
        (
            "a line: handed over",
            "request",
            lambda: (log_fields(log, logging.INFO, "request", FIELDS), defer_record(record)),
        ),
        ("a line: its text", "writing", lambda: render_json(say())),
    ]
    rows = [[name, thread, per_call_us(call, given.times, given.rounds)] for name, thread, call in parts]
    print_table(f"One request of {len(spans)} spans", ["part", "thread", "CPU µs"], rows)


if __name__ == "__main__":
    main()
