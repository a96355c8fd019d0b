"""Access to administrative calls, and their audit: who called what, when, and what became of it."""

import hmac
import logging
import re
from collections.abc import Callable, Collection
from time import monotonic
from typing import Any
from urllib.parse import parse_qs

from fastapi import Request
from starlette.requests import HTTPConnection

from radixway.api.authentication import CallerAuthenticator, is_in_networks
from radixway.core.config import GatewayConfig
from radixway.core.http import App, Message, OriginCheck, Receive, Scope, Send, choose_request_id
from radixway.core.http.request_origin import is_loopback, proxy_header, quoted_host
from radixway.core.pipeline import ForbiddenError, UnauthorizedError
from radixway.core.telemetry import log_fields
from radixway.semantics.guard.audit import AuditLog, name_or_digest

log = logging.getLogger("radixway.admin")


BY = "radixway.admin"
"""Scope key of an administrative caller's name; `NOBODY` for a refused call."""
NOBODY = "nobody"


class AdminAccess:
    """A FastAPI dependency: lets a call pass that carries the key, or comes from a network that needs none.

    The key is the gateway's admin key, or one of a tenant with one of `scopes`. Where neither the gateway nor
    any tenant has keys, calls from this machine pass too, but none that came through a proxy, and none under
    a name that another site may have. What passes without a key never comes from another site's page.
    """

    def __init__(
        self,
        config: GatewayConfig,
        callers: CallerAuthenticator | None = None,
        scopes: Collection[str] = ("admin",),
        origins: OriginCheck | None = None,
    ) -> None:
        """`origins`: the gateway's own names; by default those configured."""
        self._key = config.admin_key.get_secret_value() if config.admin_key else None
        self._networks = config.admin_networks
        self._known_callers = callers
        self._check_wrong_key = None if callers is None else callers.count_wrong_key
        self._scopes = frozenset(scopes)
        self._origins = origins or OriginCheck(hosts=config.hosts)

    @property
    def _callers(self) -> CallerAuthenticator | None:
        """Who knows the keys; None where there are none."""
        callers = self._known_callers
        return callers if callers is not None and callers.needs_keys else None

    @property
    def needs_key(self) -> bool:
        """Return whether any configured key passes calls."""
        return self._key is not None or self._callers is not None

    def __call__(self, request: Request) -> None:
        """Let `request` pass. Raises UnauthorizedError, ForbiddenError (no such scope), TooManyWrongKeys."""
        if self.is_allowed(request):
            request.scope[BY] = self._caller_name(request)
            return
        request.scope[BY] = NOBODY
        if self._callers is not None:
            if self._callers.known_key_of(request.scope) is not None:
                raise ForbiddenError(
                    f"this call needs a key of the scope {' or '.join(sorted(self._scopes))}"
                )
        elif self._key is None:
            raise UnauthorizedError(self._why_not_local(request.scope))
        if self._check_wrong_key is not None:
            self._check_wrong_key(request.scope)
        raise UnauthorizedError("this call needs `Authorization: Bearer` with the gateway's admin key")

    def is_allowed(self, request: HTTPConnection) -> bool:
        """Return whether `request` may make an administrative call."""
        return (self.needs_key and self.has_admin_key(request)) or self._passes_keyless(request.scope)

    def _passes_keyless(self, scope: Scope) -> bool:
        """Return whether `scope` needs no key: its address suffices, and no other site's page sent it."""
        origins, client = self._origins, scope.get("client")
        if not client:
            return False
        if is_in_networks(client[0], self._networks):  # these may be whole offices, browsers and all
            is_browser = any(name == b"origin" for name, _ in scope["headers"])
            return not origins.is_cross_site(scope) and not (is_browser and origins.has_foreign_host(scope))
        return (
            not self.needs_key
            and is_loopback(scope)
            and proxy_header(scope) is None
            and not origins.has_foreign_host(scope)
            and not origins.is_cross_site(scope)
        )

    def _why_not_local(self, scope: Scope) -> str:
        if not is_loopback(scope):
            return "set gateway.admin_key or gateway.admin_networks to allow this call from another machine"
        if (header := proxy_header(scope)) is not None:
            return (
                f"this call came through a proxy ({header}), so that its address says nothing: set "
                "gateway.admin_key, or gateway.admin_networks if all who reach the proxy may make it"
            )
        if self._origins.has_foreign_host(scope):
            return (
                f"another site may have the name {quoted_host(scope)!r}, under which this call came: ask at "
                "localhost or an address, name it in gateway.hosts, or set gateway.admin_key or "
                "gateway.admin_networks"
            )
        return "a page of another site asked for this: set gateway.admin_key, and send it"

    def _caller_name(self, request: Request) -> str:
        """Return the caller's name for the audit log, which names no users."""
        key = None if self._callers is None else self._callers.known_key_of(request.scope)
        if key is not None:
            return f"tenant:{key.tenant}"
        return "admin_key" if self.has_admin_key(request) else "network"

    def has_admin_key(self, request: HTTPConnection) -> bool:
        """Return whether `request` brings a key with which it passes from anywhere."""
        if self._callers is not None:
            key = self._callers.known_key_of(request.scope)
            if key is not None and not self._scopes.isdisjoint(key.scopes):
                return True
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        return (
            self._key is not None
            and scheme.lower() == "bearer"
            and hmac.compare_digest(given.encode("latin-1"), self._key.encode())
        )


_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_PATH = re.compile(r"[A-Za-z0-9/._:~@%+-]{1,200}")
_KEY_IN_PATH = re.compile(r"(?<=/keys/)(?!key-)[^/]+|sk-[^/]+")
"""A key may stand where its id is meant."""
_TARGETS = ("url", "worker", "name")
"""Query parameters that name what an administrative call changes."""
_MAX_REFUSALS_LOGGED = 20
"""Refused calls logged per `_REFUSAL_WINDOW_S`; the rest are only counted, or guessed keys could fill the
disk."""
_REFUSAL_WINDOW_S = 10.0


class AdminAuditMiddleware:
    """An ASGI application around another."""

    def __init__(self, app: App, audit: AuditLog | None, clock: Callable[[], float] = monotonic) -> None:
        """`audit`: also gets administrators' calls, besides the log."""
        self._app = app
        self._audit = audit
        self._clock = clock
        self._since = 0.0
        self._refused = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = next((value for name, value in scope["headers"] if name == b"x-request-id"), None)
        request_id, status = choose_request_id(given), 499

        async def target(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message.get("headers", ())
                if not any(name.lower() == b"x-request-id" for name, _ in headers):
                    mine = (b"x-request-id", request_id.encode("ascii"))
                    message = {**message, "headers": [*headers, mine]}
            await send(message)

        try:
            await self._app(scope, receive, target)
        finally:
            if BY in scope and (scope["method"] not in _READING or scope[BY] == NOBODY):
                self._write_audit_entry(scope, request_id, status)

    def _write_audit_entry(self, scope: Scope, request_id: str, status: int) -> None:
        by, unwritten = scope[BY], 0
        if by == NOBODY:
            now = self._clock()
            if now - self._since > _REFUSAL_WINDOW_S:
                unwritten = max(0, self._refused - _MAX_REFUSALS_LOGGED)
                self._since, self._refused = now, 0
            self._refused += 1
            if self._refused > _MAX_REFUSALS_LOGGED:
                return
        client = scope.get("client")
        fields: dict[str, Any] = {
            "request": name_or_digest(request_id),
            "method": scope["method"],
            "path": name_or_digest(_KEY_IN_PATH.sub("KEY", scope["path"]), _PATH),
            "target": _audit_target(scope["query_string"]),
            "by": by,
            "address": None if client is None else client[0],
            "status": status,
        }
        if unwritten:
            fields["refused_before"] = unwritten
        log_fields(log, logging.INFO, "admin call", fields)
        if self._audit is not None:
            self._audit.record_event("admin_call", **fields)


def _audit_target(query: bytes) -> str | None:
    try:
        parameters = parse_qs(query.decode("latin-1"), max_num_fields=20)
    except ValueError:
        return None
    target = next((parameters[name][0] for name in _TARGETS if name in parameters), None)
    # A URL with credentials is refused; they are not logged.
    return None if target is None else name_or_digest(target.rpartition("@")[2], _PATH)
