"""The proxy at `/console` in the gateway, which passes requests and WebSockets on to a Unix socket."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from http.cookies import CookieError, SimpleCookie
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import aiohttp
from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.requests import HTTPConnection
from starlette.routing import Route, WebSocketRoute
from yarl import URL

from radixway.api.admin_access import AdminAccess
from radixway.api.console.process import ConsoleProcess, ConsoleUnavailableError, find_console_socket
from radixway.core.component import Component
from radixway.core.config import ConsoleConfig
from radixway.core.http import App, Message, Receive, Scope, Send

log = logging.getLogger(__name__)


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


async def forward_request(
    session: aiohttp.ClientSession, scope: Scope, receive: Receive, send: Send, extra: Headers, added: Headers
) -> None:
    """Forward with the headers `extra`, and reply with the headers `added` too. Raises ClientError."""
    declared = [value for name, value in scope["headers"] if name == b"content-length"]
    headers = _forwarded_headers(scope, extra) + [
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
        received = [(name.lower(), value) for name, value in response.raw_headers]
        lasting = [pair for pair in received if pair[0] not in _HOP_BY_HOP or pair[0] == b"content-length"]
        await send({"type": "http.response.start", "status": response.status, "headers": [*lasting, *added]})
        async for part in response.content.iter_any():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def forward_websocket(
    session: aiohttp.ClientSession, scope: Scope, receive: Receive, send: Send, extra: Headers
) -> None:
    """Forward both ways until a side closes. Raises ClientConnectorError before anything was received."""
    try:
        pages = await session.ws_connect(
            _target_url(scope),
            headers=_forwarded_headers(scope, extra),
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
        copies = [
            asyncio.create_task(_copy_to_console(receive, pages)),
            asyncio.create_task(_copy_to_browser(pages, send)),
        ]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            await asyncio.gather(*copies, return_exceptions=True)
    code = 1000 if pages.close_code in (None, 1005, 1006, 1015) else pages.close_code  # those are never sent
    with suppress(RuntimeError):  # the browser has closed it
        await send({"type": "websocket.close", "code": code})


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


def _forwarded_headers(scope: Scope, extra: Headers) -> list[tuple[str, str]]:
    """Return the browser's end-to-end headers; `extra` replaces any that it made up."""
    replaced = {name for name, _ in extra}
    forwarded = [
        (name, value)
        for name, value in scope["headers"]
        if name not in _HOP_BY_HOP and name not in replaced and not name.startswith(_OF_THE_HANDSHAKE)
    ]
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in [*forwarded, *extra]]


def _target_url(scope: Scope) -> URL:
    query = scope["query_string"].decode("latin-1")
    path = scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0]
    return URL(f"http://console{path}{f'?{query}' if query else ''}", encoded=True)


_SOCKET_TIMEOUT_S = 60.0
"""Longer than a page takes, and than the pause between two polls of a socket."""
_STARTING_PAGE = (files(__package__) / "starting.html").read_text()
_KEYS = (b"authorization", b"x-api-key")
_INSTALL = "pip install 'radixway[console]'"


class ConsoleProxy(Component):
    """An ASGI application: finds the console that knows the visitor, and passes on."""

    name = "console"

    def __init__(self, config: ConsoleConfig, app: App, access: AdminAccess) -> None:
        self._process = ConsoleProcess(config, app)
        self._access = access
        self._sessions: dict[Path, aiohttp.ClientSession] = {}
        self._starting: asyncio.Task[None] | None = None

    @property
    def is_installed(self) -> bool:
        """Return whether what the pages need is installed."""
        return find_spec("nicegui") is not None

    @property
    def is_ready(self) -> bool:
        """Return whether the process answers, so that a visitor sees pages at once."""
        return self._process.is_ready

    def routes(self) -> APIRouter:
        """Return what is served at `/console`."""
        router = APIRouter()
        for path in ("/console", "/console/{path:path}"):
            router.routes.append(Route(path, self, include_in_schema=False))
            router.routes.append(WebSocketRoute(path, self))
        return router

    def preload(self, port: int) -> None:
        """Start the process in the background, if it does not run. `port`: the gateway's."""
        if self.is_ready or (self._starting is not None and not self._starting.done()):
            return
        if self.is_installed:
            self._starting = asyncio.create_task(self._start(port), name="console-start")

    async def _start(self, port: int) -> None:
        with suppress(ConsoleUnavailableError, OSError):
            await self._process.ensure_running(port)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self.is_installed:
            await _send_not_installed(scope, receive, send)
            return
        port = scope["server"][1] if scope.get("server") else 0
        cookie = f"radixway_console_{port or 0}"
        known = _cookie(scope, cookie)
        visitor = self._visitor_headers(scope)
        repeatable = scope["type"] == "websocket" or scope["method"] in ("GET", "HEAD")
        try:
            if known is not None and known != self._process.name:
                other = find_console_socket(known, port or 0)
                if other is not None:
                    if await self._forward(other, scope, receive, send, visitor, ()):
                        return
                    if not repeatable:
                        await _send_unavailable(scope, receive, send)
                        return
            if _is_page_visit(scope) and not (self.is_ready or self._process.has_failed):
                self.preload(port or 0)
                await _send_starting_page(scope, receive, send)
                return
            for again in (repeatable, False):
                own = await self._process.ensure_running(port or 0)
                answer: list[tuple[bytes, bytes]] = []
                if known != self._process.name:
                    value = f"{cookie}={self._process.name}; Path=/console; HttpOnly; SameSite=Strict"
                    answer.append((b"set-cookie", value.encode("ascii")))
                if await self._forward(own, scope, receive, send, visitor, answer):
                    return
                if not (again and await self._process.has_ended()):
                    break
        except (ConsoleUnavailableError, OSError):
            pass
        await _send_unavailable(scope, receive, send)

    async def stop(self) -> None:
        """End the process, and what is passed on to it or to others."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        for session in self._sessions.values():
            await session.close()
        await self._process.stop_process()

    async def _forward(
        self, path: Path, scope: Scope, receive: Receive, send: Send, visitor: Headers, answer: Headers
    ) -> bool:
        """Forward a request; return False if no process listened and nothing was sent."""
        answered = False

        async def send_and_note(message: Message) -> None:
            nonlocal answered
            answered = True
            await send(message)

        try:
            if scope["type"] == "http":
                await forward_request(
                    self._client_session(path), scope, receive, send_and_note, visitor, answer
                )
            else:
                await forward_websocket(self._client_session(path), scope, receive, send_and_note, visitor)
        except (aiohttp.ClientError, ConnectionError) as error:
            log.log(
                logging.DEBUG if answered else logging.WARNING,
                "the console %s: %s",
                "broke off" if answered else "does not answer",
                error or type(error).__name__,
            )
            return answered
        return True

    def _client_session(self, path: Path) -> aiohttp.ClientSession:
        if path not in self._sessions:
            self._sessions[path] = aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(str(path), limit=0),
                timeout=aiohttp.ClientTimeout(
                    total=None, sock_connect=_SOCKET_TIMEOUT_S, sock_read=_SOCKET_TIMEOUT_S
                ),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._sessions[path]

    def _visitor_headers(self, scope: Scope) -> Headers:
        """Its address, and whether it may make administrative calls."""
        host = scope["client"][0] if scope.get("client") else ""
        bare = {**scope, "headers": [header for header in scope["headers"] if header[0] not in _KEYS]}
        admitted = b"1" if self._access.is_allowed(HTTPConnection(bare)) else b"0"
        return ((b"x-radixway-visitor", host.encode("latin-1")), (b"x-radixway-admitted", admitted))


def _cookie(scope: Scope, name: str) -> str | None:
    for header, value in scope["headers"]:
        if header == b"cookie":
            try:
                found = SimpleCookie(value.decode("latin-1")).get(name)
            except CookieError:
                continue
            if found is not None:
                return found.value
    return None


def _is_page_visit(scope: Scope) -> bool:
    return (
        scope["type"] == "http"
        and scope["method"] == "GET"
        and "text/html" in Request(scope).headers.get("accept", "")
    )


async def _send_starting_page(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer at once with a page that loads again when the console's process answers."""
    is_chinese = Request(scope).headers.get("accept-language", "").lower().startswith("zh")
    text = "控制台正在启动…" if is_chinese else "The console is starting…"
    page = _STARTING_PAGE.format(lang="zh-CN" if is_chinese else "en", text=text)
    await HTMLResponse(page, headers={"cache-control": "no-store"})(scope, receive, send)


async def _send_not_installed(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1013})
        return
    text = "The console is not installed here."
    await _send_message(scope, receive, send, 200, text, _INSTALL)


async def _send_unavailable(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1013})
        return
    await _send_message(
        scope, receive, send, 503, "The console does not answer.", "the gateway's log says why"
    )


async def _send_message(
    scope: Scope, receive: Receive, send: Send, status: int, text: str, hint: str
) -> None:
    accepts = Request(scope).headers.get("accept", "")
    answer: Response
    if "text/html" in accepts:
        page = f"<!doctype html><title>Radixway</title><p>{text}<p><code>{hint}</code>"
        answer = HTMLResponse(page, status)
    else:
        answer = JSONResponse({"console": text, "hint": hint}, status)
    await answer(scope, receive, send)
