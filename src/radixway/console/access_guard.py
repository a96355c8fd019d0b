"""The access control of the pages: an ASGI application around them.

- Without a session nothing but the sign-in page and its style is answered, WebSockets included.
- Where the gateway has no key, the pages are for those whom it lets do an administrator's calls as they
  are, and under the names `localhost`, an address, or one of `console.hosts`: a foreign page
  whose name resolves to this machine (DNS rebinding) is refused, and what came through a proxy.
- What changes something, WebSockets included, comes from our own pages.
- No page of others' shows ours in a frame, and ours load nothing from elsewhere.
"""

import asyncio
from collections.abc import Collection
from time import monotonic
from urllib.parse import quote

from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from radixway.console.gateway_calls import GatewayConnection
from radixway.console.page import BASE, PREFERENCES, read_preferences
from radixway.console.sign_in import (
    SIGN_IN,
    SignInSession,
    SignInSessions,
    fetch_identity,
    session_cookie,
    sign_in_address,
)
from radixway.core.http import OriginCheck
from radixway.core.http.request_origin import is_loopback, may_change, proxy_header

_OPEN = (f"{BASE}/assets/", f"{BASE}/favicon.ico")
_KEYLESS_FOR_S = 5.0
"""How long the gateway's answer holds that no key is needed: a page asks for dozens of files."""
_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline' 'unsafe-eval'",  # Vue compiles the pages' templates
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "object-src 'none'",
        "form-action 'self'",
    )
)
_ACTIVITY = '42["event"'
"""Prefix of Socket.IO messages about a click or key; pings have none."""
_HEADERS = (
    (b"content-security-policy", _POLICY.encode("ascii")),
    (b"x-frame-options", b"DENY"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)


class AccessGuard:
    """Stands before every path. `alone`: there is no gateway in front, so the peer is the visitor."""

    def __init__(
        self,
        app: ASGIApp,
        line: GatewayConnection,
        sign_ins: SignInSessions,
        hosts: Collection[str],
        *,
        alone: bool,
    ) -> None:
        self._app = app
        self._line = line
        self._sign_ins = sign_ins
        self._origins = OriginCheck(hosts=hosts)
        self._alone = alone
        self._open_until = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        send = _with_headers(send)
        if may_change(scope) and self._origins.is_cross_site(scope):
            await _send_refusal(scope, receive, send, PlainTextResponse("asked for by another site", 403))
            return
        scope.setdefault("state", {})["visitor"] = self._visitor_address(request)
        if scope["path"] == SIGN_IN or scope["path"].startswith(_OPEN):
            await self._app(scope, receive, send)
            return
        token = request.cookies.get(session_cookie(request))
        session = self._sign_ins.find_session(token, active="/_nicegui_ws/" not in scope["path"])
        if session is None:
            session = await self._keyless_session(request)
        if session is None:
            answer: Response = PlainTextResponse("signed out", 401)
            if scope["type"] == "http" and "text/html" in request.headers.get("accept", ""):
                answer = RedirectResponse(_sign_in_for(scope), 303)
            await _send_refusal(scope, receive, send, answer)
            return
        scope["state"]["signed_in"] = session
        PREFERENCES.set(read_preferences(request))
        if scope["type"] == "websocket":
            receive = _receive_until_over(session, receive, self._sign_ins)
        await self._app(scope, receive, send)

    def _visitor_address(self, request: HTTPConnection) -> str:
        if self._alone:
            return request.client.host if request.client is not None else ""
        return request.headers.get("x-radixway-visitor", "")

    def _is_admitted(self, request: HTTPConnection) -> bool:
        if not self._alone:
            return request.headers.get("x-radixway-admitted") == "1"
        return is_loopback(request.scope) and proxy_header(request.scope) is None

    async def _keyless_session(self, request: HTTPConnection) -> SignInSession | None:
        """Return an anonymous session where no key is needed."""
        if not self._is_admitted(request) or self._origins.has_foreign_host(request.scope):
            return None
        now = monotonic()
        if now > self._open_until:
            if not (await fetch_identity(self._line, None)).admin:
                return None
            self._open_until = now + _KEYLESS_FOR_S
        return SignInSession(None, 0.0)


def _sign_in_for(scope: Scope) -> str:
    """Return the sign-in page that leads back to the page of `scope`."""
    path = quote(scope["path"], safe="/:@")
    query = scope["query_string"].decode("latin-1")
    is_first = path in (BASE, f"{BASE}/") and not query
    return SIGN_IN if is_first else sign_in_address(f"{path}?{query}" if query else path)


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), *_HEADERS]
        await send(message)

    return send_with_headers


def _receive_until_over(session: SignInSession, receive: Receive, sign_ins: SignInSessions) -> Receive:
    """Return a `receive` for which the browser is gone once `session` is over; activity prolongs it."""
    over = asyncio.Event()
    session.on_end.append(over.set)

    async def receive_until_over() -> Message:
        if session.over:
            return {"type": "websocket.disconnect", "code": 1008}
        received = asyncio.ensure_future(receive())
        ended = asyncio.ensure_future(over.wait())
        try:
            await asyncio.wait({received, ended}, return_when=asyncio.FIRST_COMPLETED)
            if received.done():
                message: Message = received.result()
                if (message.get("text") or "").startswith(_ACTIVITY):
                    sign_ins.touch_session(session)
                if message["type"] == "websocket.disconnect" and over.set in session.on_end:
                    session.on_end.remove(over.set)
                return message
            return {"type": "websocket.disconnect", "code": 1008}
        finally:
            received.cancel()
            ended.cancel()

    return receive_until_over


async def _send_refusal(scope: Scope, receive: Receive, send: Send, answer: Response) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    await answer(scope, receive, send)
