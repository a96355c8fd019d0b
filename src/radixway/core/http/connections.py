"""State that the connections of one server share: limits, idle connections, bytes of bodies, shutdown."""

from __future__ import annotations

import asyncio
import logging
import resource
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from starlette.routing import Route, WebSocketRoute

from radixway.core.http.asgi import App, Receive, Scope, Send
from radixway.core.http.errors import HttpError

if TYPE_CHECKING:
    from fastapi import APIRouter

log = logging.getLogger(__name__)

_OWN_FILES = 64
"""Descriptors beside the connections: databases, logs, pipes."""
_MAX_CONNECTIONS = 16_384
"""Default, however many files may be open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits on what a client may send and how long it may take: the section `limits.server`."""

    max_header_bytes: int = 64 * 2**10
    max_header_count: int = 128
    header_timeout_s: float = 30
    body_timeout_s: float = 30
    min_body_bytes_per_s: int = 256
    keep_alive_s: float = 75
    send_timeout_s: float = 60
    max_connections: int | None = None
    max_body_bytes_in_flight: int = 256 * 2**20

    def effective_max_connections(self) -> int:
        """`max_connections`, or what the number of files allows that this process may have open.

        Half of them are for connections to workers, so that accepted requests can be finished.
        """
        if self.max_connections is not None:
            return self.max_connections
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files == resource.RLIM_INFINITY:
            return _MAX_CONNECTIONS
        return min(max((files - _OWN_FILES) // 2, 8), _MAX_CONNECTIONS)


@dataclass(slots=True)
class ServerCounts:
    """Counts of the times that a server has met each limit."""

    large_heads: int = 0
    slow_heads: int = 0
    slow_bodies: int = 0
    slow_readers: int = 0
    bodies_without_memory: int = 0
    closed_idle: int = 0
    refused_connections: int = 0
    files_exhausted: int = 0
    """Seconds in which no more files could be opened."""


def raise_file_limit() -> None:
    """Let this process open as many files as the system allows: the lower limit is for select()."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


STATE = "radixway.connections"
"""Scope key of the server's `ConnectionState`."""
_LOG_EVERY_S = 10.0
_MAX_REFUSALS = 32
"""Refused clients that get time to read the reason; others are cut off."""
FREE_BODY_BYTES = 64 * 2**10
"""Bytes of each body that are not counted; the number of connections bounds these."""


class ServerStoppingError(HttpError):
    """The time for finishing requests is over."""

    status = 503
    code = "server_stopping"
    retry_after_s = 1

    def __init__(self) -> None:
        super().__init__("the server is stopping, and its time for finishing requests is over: ask again")


class IdleConnection(Protocol):
    """A connection without a request under way."""

    def close_idle(self) -> None:
        """Close it now, even if its last answer has not been read."""

    def end_keep_alive(self) -> None:
        """Close it once its last answer has been read."""


class ConnectionState:
    """The connections of one server, in its event loop. They enter and leave it themselves."""

    def __init__(self, limits: ServerLimits, counts: ServerCounts) -> None:
        self.limits = limits
        self.counts = counts
        self.max_connections = limits.effective_max_connections()
        self.idle: dict[IdleConnection, None] = {}
        """Connections on which no request is being answered, the one that became so first in front."""
        self.refused = 0
        """Clients that are being told that there are too many."""
        self.body_bytes = 0
        """Bytes of bodies being read, beyond the first `FREE_BODY_BYTES` of each."""
        self.is_ending = False
        """The time for finishing requests is over; tasks cancelled now are cancelled for that."""
        self._kept_since: dict[IdleConnection, float] = {}
        """When each connection that is kept alive became idle, the first in front."""
        self._keep_alive_timer: asyncio.TimerHandle | None = None
        self._default_headers: Sequence[tuple[bytes, bytes]] = ()
        self._default_lines = b""
        self._warned_at = -_LOG_EVERY_S

    def admit_connection(self, connections: int) -> bool:
        """Return whether one more of `connections` may stay; the longest idle one is closed to make room."""
        if connections - self.refused <= self.max_connections:
            return True
        if self.idle:
            oldest = next(iter(self.idle))
            del self.idle[oldest]
            oldest.close_idle()
            self.counts.closed_idle += 1
            self._warn_of_connections()
            return True
        self.counts.refused_connections += 1
        self._warn_of_connections()
        return False

    def may_send_refusal(self) -> bool:
        """Return whether another refused client may be given time to read why."""
        return self.refused < _MAX_REFUSALS

    def keep_alive(self, connection: IdleConnection) -> None:
        """`connection` is idle after a reply: close it when it has been so for `keep_alive_s`.

        One timer serves all of them.
        """
        self.idle[connection] = None
        self._kept_since[connection] = monotonic()
        if self._keep_alive_timer is None:
            self._start_keep_alive_timer(self.limits.keep_alive_s)

    def end_idleness(self, connection: IdleConnection) -> None:
        """Something has come over `connection`, or it has ended. May be called again."""
        self._kept_since.pop(connection, None)

    def forget_connection(self, connection: IdleConnection) -> None:
        """`connection` answers a request, or has ended. May be called again."""
        self.idle.pop(connection, None)
        self._kept_since.pop(connection, None)

    def _start_keep_alive_timer(self, seconds: float) -> None:
        self._keep_alive_timer = asyncio.get_running_loop().call_later(seconds, self._close_unused)

    def _close_unused(self) -> None:
        self._keep_alive_timer = None
        now = monotonic()
        for connection, since in list(self._kept_since.items()):
            if (left_s := since + self.limits.keep_alive_s - now) > 0:
                self._start_keep_alive_timer(left_s)
                return
            self.forget_connection(connection)
            connection.end_keep_alive()

    def render_default_headers(self, headers: Sequence[tuple[bytes, bytes]]) -> bytes:
        """Return the lines of `headers`, which uvicorn makes anew once a second."""
        if headers is not self._default_headers:
            self._default_headers = headers
            self._default_lines = b"".join([b"%b: %b\r\n" % header for header in headers])
        return self._default_lines

    def hold_body(self, size: int) -> None:
        """Count `size` bytes of a body being read. Raises HttpError (503), and counts nothing then."""
        if self.body_bytes + size > self.limits.max_body_bytes_in_flight:
            self.counts.bodies_without_memory += 1
            message = "the bodies being read hold all of limits.server.max_body_bytes_in_flight: ask again"
            raise HttpError(message, status=503, code="too_many_bodies", retry_after_s=1)
        self.body_bytes += size

    def release_body(self, size: int) -> None:
        """Subtract `size` bytes that `hold_body` counted."""
        self.body_bytes -= size

    def warn_of_file_limit(self) -> None:
        """Warn that no more files can be opened, so that new clients are cut off."""
        self.counts.files_exhausted += 1
        if self._may_warn():
            log.warning(
                "no more files can be opened, so new connections are lost: raise `ulimit -n`, or lower "
                "limits.server.max_connections, now %d",
                self.max_connections,
            )

    def _warn_of_connections(self) -> None:
        if self._may_warn():
            log.warning(
                "%d connections, the most allowed (limits.server.max_connections): so far %d idle ones were "
                "closed for new ones, and %d new ones refused",
                self.max_connections,
                self.counts.closed_idle,
                self.counts.refused_connections,
            )

    def _may_warn(self) -> bool:
        now = monotonic()
        if now - self._warned_at < _LOG_EVERY_S:
            return False
        self._warned_at = now
        return True


def is_server_stopping(scope: MutableMapping[str, Any]) -> bool:
    """Return whether the request's server ends what is under way: why its task was cancelled."""
    state: ConnectionState | None = scope.get(STATE)
    return state is not None and state.is_ending


def uncancel_at_end(scope: MutableMapping[str, Any]) -> bool:
    """Take back this cancellation, and return True, if it comes from the end of the server."""
    if not is_server_stopping(scope):
        return False
    if (task := asyncio.current_task()) is not None:
        task.uncancel()
    return True


def include_routes(into: APIRouter, *parts: APIRouter, guard: Callable[[Scope], None] | None = None) -> None:
    """Let `into` answer on the routes of `parts`, too, without its own prefix and dependencies.

    FastAPI's `include_router` builds each route again, which the first caller waited for. `guard` is told of
    each request before its body is read, and raises what `into` answers; so does ServerStoppingError where
    a request is cancelled because the server ends.
    """
    for part in parts:
        for route in part.routes:
            if not isinstance(route, Route | WebSocketRoute):
                raise TypeError(f"{route!r} cannot be guarded")
            route.app = _guard_app(route.app, guard)
        into.routes.extend(part.routes)


def _guard_app(app: App, guard: Callable[[Scope], None] | None) -> App:
    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if guard is not None:
            guard(scope)
        try:
            await app(scope, receive, send)
        except asyncio.CancelledError:
            if not uncancel_at_end(scope):
                raise
            raise ServerStoppingError from None

    return guarded
