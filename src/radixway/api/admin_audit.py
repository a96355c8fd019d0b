"""Around every path that is not a hot one: each answer has its request's id, and administrators' calls are
written down: who called what, when, and what became of it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from time import monotonic
from typing import Any
from urllib.parse import parse_qs

from radixway.api.admin_access import BY, NOBODY
from radixway.core.http import App, Message, Receive, Scope, Send, choose_request_id
from radixway.core.telemetry import log_fields
from radixway.semantics.guard.audit import AuditLog, name_or_digest

log = logging.getLogger("radixway.admin")

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_PATH = re.compile(r"[A-Za-z0-9/._:~@%+-]{1,200}")
_TARGETS = ("url", "worker", "name")
"""Of a query, what says to whom the call is done."""
_MAX_REFUSALS_LOGGED = 20
"""Refused calls that are written down within …"""
_WITHIN_S = 10.0
"""… so many seconds; others are only counted. Whoever guesses keys could fill the disk otherwise."""


class AdminAuditMiddleware:
    """An ASGI application around another."""

    def __init__(self, app: App, audit: AuditLog | None, clock: Callable[[], float] = monotonic) -> None:
        """`audit`: where administrators' calls are written to beside the log, if anywhere."""
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

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                headers = message.get("headers", ())
                if not any(name.lower() == b"x-request-id" for name, _ in headers):
                    mine = (b"x-request-id", request_id.encode("ascii"))
                    message = {**message, "headers": [*headers, mine]}
            await send(message)

        try:
            await self._app(scope, receive, named)
        finally:
            if BY in scope and (scope["method"] not in _READING or scope[BY] == NOBODY):
                self._write_audit_entry(scope, request_id, status)

    def _write_audit_entry(self, scope: Scope, request_id: str, status: int) -> None:
        by, unwritten = scope[BY], 0
        if by == NOBODY:
            now = self._clock()
            if now - self._since > _WITHIN_S:
                unwritten = max(0, self._refused - _MAX_REFUSALS_LOGGED)
                self._since, self._refused = now, 0
            self._refused += 1
            if self._refused > _MAX_REFUSALS_LOGGED:
                return
        client = scope.get("client")
        fields: dict[str, Any] = {
            "request": name_or_digest(request_id),
            "method": scope["method"],
            "path": name_or_digest(scope["path"], _PATH),
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
        asked = parse_qs(query.decode("latin-1"), max_num_fields=20)
    except ValueError:
        return None
    named = next((asked[name][0] for name in _TARGETS if name in asked), None)
    # Who writes credentials into a URL is refused, and they are written down nowhere.
    return None if named is None else name_or_digest(named.rpartition("@")[2], _PATH)
