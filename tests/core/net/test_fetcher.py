"""HTTP to addresses that users name, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import AsyncIterator
from urllib.parse import unquote

import pytest

from radixway.core.net import (
    AddressAllowlist,
    FetchError,
    TooManyRedirectsError,
    UrlFetcher,
)
from support.scripted_worker import Exchange, ScriptedWorker, scripted_worker

HERE = AddressAllowlist(["127.0.0.1"])


async def site(exchange: Exchange) -> None:
    """Everything that a web site may do to somebody who fetches from it."""
    if exchange.path.startswith("/redirect?"):
        await redirect(exchange, unquote(exchange.path.partition("?")[2]))
    elif exchange.path == "/huge":
        await exchange.begin_stream()
        while True:
            await exchange.chunk(b"x" * 100_000)
    elif exchange.path == "/bomb":
        await packed(exchange, gzip.compress(b"\0" * 20_000_000))
    elif exchange.path == "/drip":
        await exchange.begin_stream()
        await exchange.chunk(b"drip")
        await exchange.until_peer_leaves()
    elif exchange.path == "/nonsense":
        exchange.writer.write(b"\0\1\2 no HTTP at all\r\n\r\n")
        await exchange.writer.drain()
        exchange.die()
    else:
        await exchange.reply(200, exchange.body or "Grüße".encode("latin-1"), "text/plain; charset=latin-1")


async def redirect(exchange: Exchange, to: str) -> None:
    head = f"HTTP/1.1 302 Found\r\nlocation: {to}\r\ncontent-length: 0\r\n\r\n"
    exchange.writer.write(head.encode())
    await exchange.writer.drain()


async def packed(exchange: Exchange, body: bytes) -> None:
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(body)}\r\n\r\n"
    exchange.writer.write(head.encode() + body)
    await exchange.writer.drain()


@pytest.fixture
async def web() -> AsyncIterator[ScriptedWorker]:
    async with scripted_worker(site) as web:
        yield web


@pytest.fixture
async def fetcher() -> AsyncIterator[UrlFetcher]:
    async with UrlFetcher(HERE, timeout_s=20, max_bytes=1_000_000) as fetcher:
        yield fetcher


async def test_what_is_there_is_fetched_in_its_character_set(
    web: ScriptedWorker, fetcher: UrlFetcher
) -> None:
    fetched = await fetcher.fetch(f"{web.url}/page#part")
    assert (fetched.status, fetched.content_type, fetched.decode_text(), fetched.is_complete) == (
        200,
        "text/plain",
        "Grüße",
        True,
    )
    sent = await fetcher.fetch(f"{web.url}/hook", method="POST", body=b"abc", headers={"x-mark": "1"})
    assert sent.body == b"abc" and web.requests[-1].headers["x-mark"] == "1"


async def test_nobody_is_called_who_is_not_public_however_the_address_is_written(web: ScriptedWorker) -> None:
    port = web.url.rpartition(":")[2]
    async with UrlFetcher() as fetcher:
        for host in (
            "127.0.0.1",
            "localhost",
            "2130706433",
            "0x7f.1",
            "0177.0.0.1",
            "[::ffff:127.0.0.1]",
            "0",
        ):
            with pytest.raises(FetchError, match="is not a public address|does not answer|not a URL"):
                await fetcher.fetch(f"http://{host}:{port}/secret")
        with pytest.raises(FetchError, match="127.0.0.1 is not a public address"):
            await fetcher.fetch(f"http://127.0.0.1:{port}/secret")
    assert not web.requests


async def test_the_address_that_is_checked_is_the_one_that_is_called(
    web: ScriptedWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name that turns from public to private between two questions (DNS rebinding) gains nothing."""
    port = int(web.url.rpartition(":")[2])
    asked: list[str] = []

    async def resolve(loop: object, host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        asked.append(host)
        address = "198.51.100.7" if len(asked) == 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
    async with UrlFetcher() as fetcher:
        for _ in range(2):
            with pytest.raises(FetchError, match="not a public address"):
                await fetcher.fetch(f"http://rebinding.example:{port}/secret")
    assert asked == ["rebinding.example"] * 2 and not web.requests


async def test_every_redirect_is_checked(web: ScriptedWorker, fetcher: UrlFetcher) -> None:
    port = web.url.rpartition(":")[2]
    assert (await fetcher.fetch(f"{web.url}/redirect?/page")).url == f"{web.url}/page"
    for target, error in (
        (f"http://127.0.0.2:{port}/secret", "not a public address"),
        ("http://[::1]:1/", "not a public address"),
        ("file:///etc/passwd", "only URLs of http and https"),
        ("gopher://x/", "only URLs of http and https"),
    ):
        with pytest.raises(FetchError, match=error):
            await fetcher.fetch(f"{web.url}/redirect?{target}")


async def test_redirects_come_to_an_end(fetcher: UrlFetcher) -> None:
    async def round_and_round(exchange: Exchange) -> None:
        await redirect(exchange, "/again")

    async with scripted_worker(round_and_round) as web:
        with pytest.raises(TooManyRedirectsError):
            await fetcher.fetch(web.url)
        assert len(web.requests) == 6
        answer = await fetcher.fetch(web.url, method="POST", body=b"once")
        assert answer.status == 302 and len(web.requests) == 7


async def test_headers_stay_with_the_origin_they_are_for(web: ScriptedWorker, fetcher: UrlFetcher) -> None:
    async with scripted_worker(site) as other:
        secret = {"authorization": "Bearer secret"}
        await fetcher.fetch(f"{web.url}/redirect?{other.url}/page", headers=secret)
        await fetcher.fetch(f"{web.url}/redirect?/page", headers=secret)
        assert "authorization" not in other.requests[0].headers
        assert web.requests[-1].headers["authorization"] == "Bearer secret"


@pytest.mark.parametrize("path", ["/huge", "/bomb"])
async def test_of_too_much_only_the_beginning_is_fetched(
    web: ScriptedWorker, fetcher: UrlFetcher, path: str
) -> None:
    fetched = await fetcher.fetch(web.url + path)
    assert len(fetched.body) == 1_000_000 and not fetched.is_complete


async def test_what_hangs_comes_to_an_end(web: ScriptedWorker, fetcher: UrlFetcher) -> None:
    with pytest.raises(FetchError, match="no complete answer in"):
        await fetcher.fetch(f"{web.url}/drip", timeout_s=0.05)


async def test_what_is_no_http_or_not_there_is_unreachable(web: ScriptedWorker, fetcher: UrlFetcher) -> None:
    with pytest.raises(FetchError, match="does not answer"):
        await fetcher.fetch(f"{web.url}/nonsense")
    await web.kill()
    with pytest.raises(FetchError, match="does not answer"):
        await fetcher.fetch(web.url)
    with pytest.raises(FetchError, match="does not answer"):
        await fetcher.fetch("http://nowhere.invalid/")


@pytest.mark.parametrize(
    "url",
    ["", "x", "ftp://a/b", "http://", "http://user:word@a/", "http://a:99999/", "http://[::1/", "//a/b"],
)
async def test_what_is_no_url_of_the_web_is_refused(fetcher: UrlFetcher, url: str) -> None:
    with pytest.raises(FetchError, match="URL"):
        await fetcher.fetch(url)
