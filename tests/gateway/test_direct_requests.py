"""Which requests are answered without ASGI, and that all others still are."""

import asyncio
import json
from urllib.parse import urlsplit

import pytest

from radixway.gateway.app import Gateway
from support.running_gateway import RunningGateway, running_gateway
from support.scripted_worker import scripted_worker

CHAT = "/v1/chat/completions"
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()


@pytest.fixture
def asgi_paths(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of the requests that came over ASGI."""
    paths: list[str] = []
    answer = Gateway.__call__

    async def noting(self, scope, receive, send):
        paths.append(scope["path"])
        await answer(self, scope, receive, send)

    monkeypatch.setattr(Gateway, "__call__", noting)
    return paths


async def post(gateway: RunningGateway, *pieces: bytes) -> bytes:
    """Send the pieces, each after the one before has been read; the status line of the reply."""
    address = urlsplit(gateway.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
        await asyncio.sleep(0.05)
    line = await reader.readline()
    writer.close()
    return line


def head(*lines: str, path: str = CHAT) -> bytes:
    given = [f"POST {path} HTTP/1.1", "host: localhost", f"content-length: {len(BODY)}", *lines]
    return "\r\n".join([*given, "", ""]).encode()


async def test_a_whole_request_is_answered_without_asgi(asgi_paths):
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        assert await post(gateway, head() + BODY) == b"HTTP/1.1 200 OK\r\n"
    assert CHAT not in asgi_paths


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([head(), BODY], id="in pieces"),
        pytest.param([head("expect: 100-continue") + BODY], id="expecting"),
        pytest.param([head(path=f"{CHAT}?a=b") + BODY], id="with a query"),
        pytest.param([head().replace(b"HTTP/1.1", b"HTTP/1.0") + BODY], id="of HTTP/1.0"),
    ],
)
async def test_any_other_is_answered_over_asgi(pieces, asgi_paths):
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        status = await post(gateway, *pieces)
    assert b" 200 " in status or b" 100 " in status
    assert CHAT in asgi_paths


async def test_a_page_of_another_origin_gets_its_headers_over_asgi(asgi_paths):
    allowed = {"cors_origins": ["http://page.example"]}
    async with scripted_worker() as worker, running_gateway(worker.url, gateway=allowed) as gateway:
        assert await post(gateway, head("origin: http://page.example") + BODY) == b"HTTP/1.1 200 OK\r\n"
    assert CHAT in asgi_paths


async def test_a_page_of_a_stranger_is_refused(asgi_paths):
    async with scripted_worker() as worker, running_gateway(worker.url) as gateway:
        assert b" 403 " in await post(gateway, head("origin: http://page.example") + BODY)
    assert CHAT in asgi_paths and not [one for one in worker.requests if one.path == CHAT]
