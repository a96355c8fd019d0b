"""A query string reaches the worker as it came, and no log."""

from __future__ import annotations

import asyncio
import json
import logging
from urllib.parse import urlsplit

import pytest

from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import scripted_worker

ODD = "beta=true&x=%2Fa+b%20c&empty=&flag&key=sk-1234&%41=%e4&a=1&a=2&semi;colon"
BODY = {"model": "m", "messages": [{"role": "user", "content": "hello"}], "prompt": "hello", "text": "hello"}


async def raw_call(gateway: RunningGateway, method: str, target: str) -> bytes:
    """Ask with a target that no client library has put in order."""
    body = json.dumps(BODY).encode() if method == "POST" else b""
    address = urlsplit(gateway.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = f"{method} {target} HTTP/1.1\r\nhost: {address.netloc}\r\ncontent-type: application/json\r\n"
    writer.write(f"{head}connection: close\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/completions"),
        ("POST", "/generate"),
        ("POST", "/tokenize"),
        ("POST", "/detokenize"),
        ("POST", "/flush_cache"),
    ],
)
async def test_a_query_reaches_the_worker_byte_for_byte(
    method: str, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        answer = await raw_call(gateway, method, f"{path}?{ODD}")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        assert worker.requests[-1].path == f"{path}?{ODD}"
        await raw_call(gateway, method, path)
        assert worker.requests[-1].path == path
    ours = [record.getMessage() for record in caplog.records if record.name.startswith("radixway")]
    assert "sk-1234" not in "\n".join(ours)


async def test_what_names_the_workers_of_a_call_is_for_the_gateway() -> None:
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        answer = await raw_call(gateway, "POST", f"/flush_cache?a=%2F&worker={worker.url}&b=1+2")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        assert worker.requests[-1].path == "/flush_cache?a=%2F&b=1+2"


async def test_a_worker_is_asked_what_it_is_with_the_query() -> None:
    async with scripted_worker(weight_version="7") as worker, running_gateway(worker.url) as gateway:
        asked = []
        serve = worker.behaviour

        async def note(exchange):
            asked.append(exchange.path)
            await serve(exchange)

        worker.behaviour = note
        await raw_call(gateway, "GET", "/model_info?full=%20yes")
        assert asked == ["/model_info?full=%20yes"]
