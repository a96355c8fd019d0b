"""Whatever a stranger sends: a 4xx or an answer, never a 5xx, and the gateway lives on."""

import asyncio
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
values = st.recursive(
    scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=4), v, max_size=3)
)
fields = st.sampled_from(
    [
        "model",
        "messages",
        "prompt",
        "text",
        "input_ids",
        "stream",
        "max_tokens",
        "temperature",
        "stop",
        "sampling_params",
        "priority",
        "ttft_slo_ms",
        "request_id",
        "workers",
        "session",
        "blocks",
    ]
)
messages = st.lists(st.fixed_dictionaries({"role": values, "content": values}), max_size=2)
bodies = (
    st.dictionaries(fields, values | messages, max_size=4).map(lambda body: json.dumps(body).encode())
    | values.map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=40)
)
paths = st.sampled_from(
    [
        "/v1/chat/completions",
        "/v1/completions",
        "/generate",
        "/add_worker",
        "/remove_worker",
        "/drain_worker",
        "/select",
        "/select_and_reserve",
        "/prefill_complete",
        "/output_block",
        "/free",
        "/nope",
    ]
)


async def test_no_body_makes_a_server_error():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        sent: list[tuple[str, bytes]] = []

        @settings(max_examples=150, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(paths, bodies)
        def collect(path: str, body: bytes) -> None:
            sent.append((path, body))

        collect()
        for path, body in sent:
            async with gateway.client.post(gateway.url + path, data=body) as response:
                told = await response.read()
                assert response.status < 500, (path, body, told)
                if response.status >= 400:
                    error = json.loads(told)["error"]
                    assert error["message"]
                    assert error["code"]
            if path == "/select_and_reserve" and response.status == 200:
                await gateway.post("/free", {"request_id": json.loads(told)["request_id"]})
            if path == "/add_worker" and response.status == 200:
                await gateway.client.post(gateway.url + "/remove_worker", data=body)
        assert (await gateway.chat())[0] == 200
        assert gateway.in_flight() == 0


async def test_broken_http_does_not_disturb_others():
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        port = int(gateway.url.rsplit(":", 1)[1])
        for raw in (
            b"\x00\x01\x02\r\n\r\n",
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
            b"POST /generate HTTP/1.1\r\ncontent-length: -5\r\n\r\n",
            b"POST /generate HTTP/1.1\r\ncontent-length: 99999999999999999999\r\n\r\n",
            b"POST /generate HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
            b"GET /%ff%fe HTTP/1.1\r\nhost: x\r\n\r\n",
            b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n{",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(raw)
            writer.write_eof()
            async with asyncio.timeout(5):
                answer = await reader.read()
            assert not answer.startswith(b"HTTP/1.1 5"), raw
            writer.close()
        assert (await gateway.chat())[0] == 200
