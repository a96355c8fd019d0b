"""Signing in with a key: the sessions, and the page, plain HTML before anything of the console's is sent."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from typing import Literal
from urllib.parse import parse_qs, quote

from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from radixway.console.assets import asset_url
from radixway.console.gateway_calls import CallRefusedError, ConsoleCallError, GatewayCalls, GatewayConnection
from radixway.console.page import BASE, read_preferences
from radixway.console.templates import read_template
from radixway.console.texts import TextCatalog
from radixway.core.http import AttemptLimiter

SIGN_IN = f"{BASE}/sign-in"
_MAX_SESSIONS = 10_000
_MAX_FORM_BYTES = 16 * 1024
_FROM_ALL = 10
"""Limit for all addresses, as a multiple of one address's."""
_TOO_MANY = 429

Trouble = Literal["wrong", "too_many", "away"]


@dataclass(slots=True, eq=False)
class SignInSession:
    """A visitor who gave the key, or needs none."""

    key: str | None = field(repr=False)
    seen_at: float
    on_end: list[Callable[[], None]] = field(default_factory=list)
    """Called when the session ends: its connections must end."""
    over: bool = False
    chat_token: str | None = field(default=None, repr=False)
    """Token for the chat service, once used."""


class SignInSessions:
    """Sessions by the random token that a browser's cookie holds."""

    def __init__(self, idle_s: float, clock: Callable[[], float]) -> None:
        self._idle_s = idle_s
        self._clock = clock
        self._by_token: dict[str, SignInSession] = {}

    def create_session(self, key: str | None) -> str:
        """Return the token of a new session with `key`."""
        self._drop_expired()
        while len(self._by_token) >= _MAX_SESSIONS:
            self.end_session(next(iter(self._by_token)))
        token = secrets.token_urlsafe(32)
        self._by_token[token] = SignInSession(key, self._clock())
        return token

    def find_session(self, token: str | None, *, active: bool = True) -> SignInSession | None:
        """Return the session of `token`; None if it is over. `active`: it is prolonged."""
        found = None if token is None else self._by_token.get(token)
        if token is None or found is None:
            return None
        now = self._clock()
        if now - found.seen_at > self._idle_s:
            self.end_session(token)
            return None
        if active:
            found.seen_at = now
        return found

    def end_session(self, token: str) -> None:
        """End the session of `token`, and its connections."""
        found = self._by_token.pop(token, None)
        if found is not None:
            found.over = True
            found.key = found.chat_token = None
            for callback in found.on_end:
                callback()

    def touch_session(self, session: SignInSession) -> None:
        """Prolong `session`: its visitor is active."""
        session.seen_at = self._clock()

    def is_over(self, session: SignInSession) -> bool:
        """Tell if `session` has expired; never where no key is needed."""
        if session.key is not None and not session.over and self._clock() - session.seen_at > self._idle_s:
            self.expire_session(session)
        return session.over

    def expire_session(self, session: SignInSession) -> None:
        """End `session`, as its key is not valid any more."""
        for token, signed_in in list(self._by_token.items()):
            if signed_in is session:
                self.end_session(token)

    def _drop_expired(self) -> None:
        now = self._clock()
        for token in [t for t, signed_in in self._by_token.items() if now - signed_in.seen_at > self._idle_s]:
            self.end_session(token)


@dataclass(frozen=True, slots=True)
class CallerIdentity:
    """The gateway's answer about a caller; what is not known is False."""

    answers: bool = False
    admin: bool = False
    by_key: bool = False
    """The key alone makes it one: where the console runs does not matter."""
    needs_key: bool = True


async def fetch_identity(line: GatewayConnection, key: str | None) -> CallerIdentity:
    """Return what a caller with `key` may do at the gateway behind `line`."""
    try:
        payload = await GatewayCalls(line, lambda: key).get_json("/whoami")
    except CallRefusedError as refusal:  # too many wrong keys: this is another
        return CallerIdentity(answers=refusal.status == _TOO_MANY)
    except ConsoleCallError:
        return CallerIdentity()
    return CallerIdentity(True, payload["admin"], payload["by_key"], payload["needs_key"])


def session_cookie(request: HTTPConnection) -> str:
    """Return the cookie's name, with the port of `request`: all ports of a host share cookies."""
    _, _, port = request.headers.get("host", "").rpartition(":")
    return f"radixway_session_{port}" if port.isdigit() else "radixway_session"


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
        is_limited = bool(attempts.retry_after_s(visitor))
        attempts.record_failure(visitor)
        if is_limited:
            return _render_page(request, "too_many", status=_TOO_MANY)
        return _render_page(request, "wrong", status=401)

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
        answer = RedirectResponse(_page_after(request), 303)
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


def sign_in_address(path: str) -> str:
    """Return the address of the sign-in page from which one comes back to `path`, with its query."""
    return f"{SIGN_IN}?next={quote(path, safe='/')}"


def _page_after(request: Request) -> str:
    """Return the page of the console that `request` is to lead to; its first one where none is named."""
    wanted = request.query_params.get("next", "")
    is_ours = wanted.startswith(f"{BASE}/") and wanted.isascii() and wanted.isprintable()
    return wanted if is_ours and "\\" not in wanted and not wanted.startswith(SIGN_IN) else f"{BASE}/"


async def _read_key(request: Request) -> str | None:
    raw = b""
    async for part in request.stream():
        raw += part
        if len(raw) > _MAX_FORM_BYTES:
            return None
    return parse_qs(raw.decode("utf-8", "replace")).get("key", [""])[0].strip()


def _form_action(request: Request) -> str:
    page = _page_after(request)
    return SIGN_IN if page == f"{BASE}/" else sign_in_address(page)


def _render_page(
    request: Request, trouble: Trouble | None = None, *, closed: bool = False, status: int = 200
) -> HTMLResponse:
    preferences = read_preferences(request)
    catalog = TextCatalog(preferences.language)

    def say(key: str) -> str:
        return escape(catalog(key))

    if closed:
        body = f"<h1>{say('signing.closed')}</h1><p class='rw-muted'>{say('signing.no_key')}</p>"
    else:
        body = f"<h1>{say('signing.title')}</h1><p class='rw-muted'>{say('signing.lead')}</p>"
        if trouble is not None:
            body += f"<p role='alert' class='rw-trouble'>{say(f'signing.{trouble}')}</p>"
        body += (
            f"<form method='post' action='{escape(_form_action(request))}'>"
            f"<label for='key'>{say('signing.key')}</label>"
            "<input id='key' name='key' type='password' autocomplete='current-password' required autofocus>"
            f"<button type='submit'>{say('signing.submit')}</button></form>"
        )
    page = read_template("sign_in.html").format(
        language=preferences.language,
        theme=preferences.theme,
        title=say("signing.title"),
        product=say("frame.product"),
        stylesheet=asset_url("console.css"),
        body=body,
    )
    return HTMLResponse(page, 403 if closed else status, headers={"cache-control": "no-store"})
