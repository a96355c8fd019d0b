"""The sign-in page: plain HTML, before anything of the console's is sent."""

from __future__ import annotations

from html import escape
from typing import Literal
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from radixway.console.access_guard import SIGN_IN, fetch_identity, session_cookie
from radixway.console.assets import stylesheet_url
from radixway.console.gateway_calls import GatewayConnection
from radixway.console.page import BASE
from radixway.console.preferences import read_preferences
from radixway.console.sign_in_sessions import SignInSessions
from radixway.console.texts import TextCatalog
from radixway.core.http import AttemptLimiter

_LARGEST_FORM = 16 * 1024
_FROM_ALL = 10
"""Times the wrong keys of one address, from all of them."""

Trouble = Literal["wrong", "too_many", "away"]


def sign_in_routes(
    line: GatewayConnection, sign_ins: SignInSessions, attempts_per_minute: int
) -> list[Route]:
    """Return `/sign-in` and `/sign-out`, with at most `attempts_per_minute` wrong keys per address."""
    attempts = AttemptLimiter(attempts_per_minute, max_total=attempts_per_minute * _FROM_ALL)

    async def show(request: Request) -> Response:
        found = await fetch_identity(line, None)
        return _render_page(request, None if found.answers else "away", closed=not found.needs_key)

    def refuse(request: Request) -> Response:
        """Refuse a wrong key of `request`. Right ones always work, so guessing locks out no neighbour."""
        visitor: str = request.state.visitor
        wait_s = attempts.retry_after_s(visitor)
        attempts.record_failure(visitor)
        return (
            _render_page(request, "too_many", status=429)
            if wait_s
            else _render_page(request, "wrong", status=401)
        )

    async def sign_in(request: Request) -> Response:
        """Sign in with the key in the body of `request`, never in an address or a log."""
        key = await _read_key(request)
        if not key or not (key.isascii() and key.isprintable()):
            return refuse(request)
        found = await fetch_identity(line, key)
        if not found.answers:
            return _render_page(request, "away", status=503)
        if not found.needs_key:
            return _render_page(request, closed=True)
        if not found.by_key:
            return refuse(request)
        answer = RedirectResponse(f"{BASE}/", 303)
        answer.set_cookie(
            session_cookie(request),
            sign_ins.create_session(key),
            path=BASE,
            httponly=True,
            samesite="strict",
            secure=request.headers.get("origin", "").startswith("https://"),
        )
        return answer

    async def sign_out(request: Request) -> Response:
        name = session_cookie(request)
        token = request.cookies.get(name)
        if token is not None:
            sign_ins.end_session(token)
        answer = RedirectResponse(SIGN_IN, 303)
        answer.delete_cookie(name, path=BASE)
        return answer

    return [
        Route(SIGN_IN, show, methods=["GET"]),
        Route(SIGN_IN, sign_in, methods=["POST"]),
        Route(f"{BASE}/sign-out", sign_out, methods=["POST"]),
    ]


async def _read_key(request: Request) -> str | None:
    raw = b""
    async for part in request.stream():
        raw += part
        if len(raw) > _LARGEST_FORM:
            return None
    return parse_qs(raw.decode("utf-8", "replace")).get("key", [""])[0].strip()


def _render_page(
    request: Request, trouble: Trouble | None = None, *, closed: bool = False, status: int = 200
) -> HTMLResponse:
    preferences = read_preferences(request)
    say = TextCatalog(preferences.language)
    body = f"<h1>{escape(say('signing.title'))}</h1><p class='rw-muted'>{escape(say('signing.lead'))}</p>"
    if trouble is not None:
        body += f"<p role='alert' class='rw-trouble'>{escape(say(f'signing.{trouble}'))}</p>"
    body += (
        f"<form method='post' action='{SIGN_IN}'><label for='key'>{escape(say('signing.key'))}</label>"
        "<input id='key' name='key' type='password' autocomplete='current-password' required autofocus>"
        f"<button type='submit'>{escape(say('signing.submit'))}</button></form>"
    )
    if closed:
        body = (
            f"<h1>{escape(say('signing.closed'))}</h1><p class='rw-muted'>{escape(say('signing.no_key'))}</p>"
        )
    page = (
        f"<!doctype html><html lang='{preferences.language}' data-theme='{preferences.theme}'><head>"
        "<meta charset='utf-8'><meta name='viewport' content='width=device-width, initial-scale=1'>"
        f"<title>{escape(say('signing.title'))} · {escape(say('frame.product'))}</title>"
        f"<link rel='stylesheet' href='{stylesheet_url()}'></head>"
        "<body class='rw-plain'><main class='rw-sign-in'>"
        "<p class='rw-brand'><span class='rw-mark' aria-hidden='true'></span>"
        f"{escape(say('frame.product'))}</p>"
        f"{body}</main></body></html>"
    )
    return HTMLResponse(page, 403 if closed else status, headers={"cache-control": "no-store"})
