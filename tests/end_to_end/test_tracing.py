"""One trace from whoever asks, through the gateway, into an engine in a process of its own."""

import json

import pytest

pytest.importorskip("opentelemetry.sdk")

from support.engine_process import engine_process
from support.envoy_frames import CHAT, envoy_of
from support.otlp_collector import http_collector
from support.running_gateway import running_gateway

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"
ENVOYS = [("traceparent", f"00-{'c' * 32}-{'d' * 16}-01")]
SECRET = "sesame-open-4711"


def asked(**fields):
    messages = [{"role": "user", "content": f"{SECRET}?"}]
    return {"model": "auto", "messages": messages, "max_tokens": 8, "ignore_eos": True, **fields}


def is_whole(spans):
    """Both processes have told all they know of a request."""
    names = [span.name for span in spans]
    return names.count("POST /v1/chat/completions") == 2 and "decode" in names


def the_one(spans, service, name):
    (found,) = [span for span in spans if span.service == service and span.name == name]
    return found


def check(spans, caller=(TRACE, SPAN)):
    """Parents and times, from the request to its tokens."""
    by_id = {span.id: span for span in spans}
    assert len(by_id) == len(spans) and {span.trace for span in spans} == {caller[0]}
    root = the_one(spans, "radixway", "POST /v1/chat/completions")
    assert root.parent == caller[1]
    for span in spans:
        assert span is root or by_id[span.parent].holds(span), (by_id[span.parent], span)
    engine = the_one(spans, "radixway-engine", "POST /v1/chat/completions")
    assert engine.parent == the_one(spans, "radixway", "upstream").id
    queue, prefill, decode = (
        the_one(spans, "radixway-engine", name) for name in ("queue", "prefill", "decode")
    )
    assert {queue.parent, prefill.parent, decode.parent} == {engine.id}
    assert queue.ended_ns <= prefill.began_ns and prefill.ended_ns <= decode.began_ns
    assert prefill.fields["radixway.prompt_tokens"] > 0
    assert decode.fields["radixway.completion_tokens"] == engine.fields["gen_ai.usage.output_tokens"] == 8
    assert engine.fields["radixway.request_id"] == root.fields["radixway.request_id"] == "one-request"


async def test_one_trace_spans_whoever_asks_the_gateway_and_the_engine(tmp_path):
    async with http_collector() as collector:
        section = {"telemetry": {"tracing": {"endpoint": collector.url, "interval_s": 0.02}}}
        file = tmp_path / "radixway.yaml"
        file.write_text(json.dumps(section))
        door = {"enabled": True, "port": 0}
        with engine_process("--config", str(file)) as (url, _):
            async with running_gateway(url, ext_proc=door, **section) as gateway:
                sent = {"traceparent": PARENT, "x-request-id": "one-request"}
                for stream in (False, True):
                    collector.spans.clear()
                    async with gateway.client.post(
                        gateway.url + CHAT, json=asked(stream=stream), headers=sent
                    ) as response:
                        assert response.status == 200 and response.headers["x-request-id"] == "one-request"
                        await response.read()
                    check(await collector.until(is_whole))
                async with envoy_of(gateway) as envoy:
                    # A client's header; then the span of Envoy's own, which goes before it.
                    for metadata, caller in (((), (TRACE, SPAN)), (ENVOYS, ("c" * 32, "d" * 16))):
                        collector.spans.clear()
                        body = json.dumps(asked()).encode()
                        heard = await envoy.ask("POST", CHAT, [*sent.items()], body, metadata=metadata)
                        assert heard.status == 200 and heard.header("x-request-id") == "one-request"
                        check(await collector.until(is_whole), caller)
    assert not any(SECRET.encode() in body for body in collector.bodies)
