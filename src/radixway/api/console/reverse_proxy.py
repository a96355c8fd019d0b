"""A request or a WebSocket, passed on to a server at a Unix socket and back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress

import aiohttp
from yarl import URL

from radixway.core.http import Message, Receive, Scope, Send

Headers = Sequence[tuple[bytes, bytes]]

_HOP_BY_HOP = frozenset(
    {
        *(b"connection", b"keep-alive", b"te", b"trailer", b"transfer-encoding", b"upgrade", b"expect"),
        *(b"proxy-authorization", b"content-length", b"date"),
    }
)
_OF_THE_HANDSHAKE = (b"sec-websocket-",)
_MAX_MESSAGE_BYTES = 16 * 2**20
_SKIPPED = ("user-agent", "accept", "accept-encoding", "content-type")
"""Headers that aiohttp would add of its own."""


async def forward_request(
    session: aiohttp.ClientSession, scope: Scope, receive: Receive, send: Send, more: Headers, answer: Headers
) -> None:
    """The request with the headers `more`; its answer with the headers `answer`. Raises ClientError, also
    before anything was sent."""
    declared = [value for name, value in scope["headers"] if name == b"content-length"]
    headers = _forwarded_headers(scope, more) + [
        ("content-length", value.decode("ascii")) for value in declared
    ]
    has_body = bool(declared) or any(name == b"transfer-encoding" for name, _ in scope["headers"])
    async with session.request(
        scope["method"],
        _target_url(scope),
        data=_read_body(receive) if has_body else None,
        headers=headers,
        skip_auto_headers=_SKIPPED,
        allow_redirects=False,
    ) as response:
        told = [(name.lower(), value) for name, value in response.raw_headers]
        lasting = [each for each in told if each[0] not in _HOP_BY_HOP or each[0] == b"content-length"]
        await send({"type": "http.response.start", "status": response.status, "headers": [*lasting, *answer]})
        async for part in response.content.iter_any():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def forward_websocket(
    session: aiohttp.ClientSession, scope: Scope, receive: Receive, send: Send, more: Headers
) -> None:
    """The WebSocket, until either side closes it. Raises ClientConnectorError before anything was received,
    so that somebody else can be asked."""
    try:
        pages = await session.ws_connect(
            _target_url(scope),
            headers=_forwarded_headers(scope, more),
            protocols=scope.get("subprotocols", ()),
            max_msg_size=_MAX_MESSAGE_BYTES,
            autoping=True,
        )
    except aiohttp.WSServerHandshakeError:
        await receive()  # websocket.connect
        await send({"type": "websocket.close", "code": 1008})  # before it is accepted: 403
        return
    async with pages:
        await receive()  # websocket.connect
        await send({"type": "websocket.accept", "subprotocol": pages.protocol})
        ways = [
            asyncio.create_task(_copy_to_console(receive, pages)),
            asyncio.create_task(_copy_to_browser(pages, send)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
    with suppress(RuntimeError):  # the browser has closed it
        await send({"type": "websocket.close", "code": _sendable_close_code(pages.close_code)})


async def _copy_to_console(receive: Receive, pages: aiohttp.ClientWebSocketResponse) -> None:
    while (message := await receive())["type"] == "websocket.receive":
        if message.get("text") is not None:
            await pages.send_str(message["text"])
        else:
            await pages.send_bytes(message["bytes"])


async def _copy_to_browser(pages: aiohttp.ClientWebSocketResponse, send: Send) -> None:
    async for message in pages:
        if message.type is aiohttp.WSMsgType.TEXT:
            await send({"type": "websocket.send", "text": message.data})
        elif message.type is aiohttp.WSMsgType.BINARY:
            await send({"type": "websocket.send", "bytes": message.data})


async def _read_body(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise ConnectionResetError("the browser left")
        more = message.get("more_body", False)
        if part := message.get("body", b""):
            yield part


def _forwarded_headers(scope: Scope, more: Headers) -> list[tuple[str, str]]:
    """The browser's own headers but those between two neighbours, and `more` in place of any it made up."""
    ours = {name for name, _ in more}
    kept = [
        (name, value)
        for name, value in scope["headers"]
        if name not in _HOP_BY_HOP and name not in ours and not name.startswith(_OF_THE_HANDSHAKE)
    ]
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in [*kept, *more]]


def _target_url(scope: Scope) -> URL:
    query = scope["query_string"].decode("latin-1")
    path = scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0]
    return URL(f"http://console{path}{f'?{query}' if query else ''}", encoded=True)


def _sendable_close_code(code: int | None) -> int:
    """1005, 1006 and 1015 say how a connection ended and may not be sent."""
    return code if code is not None and code not in (1005, 1006, 1015) else 1000
