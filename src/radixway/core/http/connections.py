"""State that the connections of one server share: limits, idle connections, bytes of bodies, shutdown."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import MutableMapping
from time import monotonic
from typing import Any, Protocol

from radixway.core.http.errors import HttpError
from radixway.core.http.limits import ServerCounts, ServerLimits

log = logging.getLogger(__name__)

_STATE = "radixway.connections"
"""Where a scope holds the state of the server that it came to."""
_LOG_EVERY_S = 10.0
_MAX_REFUSALS = 32
"""Refused clients that are given time to read why; others are cut off."""
FREE_BODY_BYTES = 64 * 2**10
"""Of each body; the number of connections bounds these."""


class BodyTimeoutError(HttpError):
    """A body stalled."""

    status = 408
    code = "body_timeout"


class TooManyBodiesError(HttpError):
    """Bodies that are being read hold all the memory that they may."""

    status = 503
    code = "too_many_bodies"
    retry_after_s = 1


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
        ...


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
        """Of bodies being read, beyond the first `FREE_BODY_BYTES` of each."""
        self.is_ending = False
        """The time for finishing requests is over; whatever is cancelled now is cancelled for that."""
        self._warned_at = -_LOG_EVERY_S

    def admit_connection(self, connections: int) -> bool:
        """Return whether a new connection may stay; `connections` are open, with it.

        Where there are too many, the one that has been idle longest is closed for it.
        """
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

    def hold_body(self, size: int) -> None:
        """Count `size` bytes of a body being read. Raises TooManyBodiesError, and counts nothing then."""
        if self.body_bytes + size > self.limits.max_body_bytes_in_flight:
            self.counts.bodies_without_memory += 1
            raise TooManyBodiesError(
                "the bodies being read hold all of limits.server.max_body_bytes_in_flight: ask again"
            )
        self.body_bytes += size

    def release_body(self, size: int) -> None:
        """Give back `size` bytes that `hold_body` counted."""
        self.body_bytes -= size

    def warn_of_file_limit(self) -> None:
        """No more files can be opened: new clients are cut off before anybody hears of them."""
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


def mark_scope(scope: MutableMapping[str, Any], state: ConnectionState) -> None:
    """Note on `scope` the `state` of the server that the request came to."""
    scope[_STATE] = state


def is_server_stopping(scope: MutableMapping[str, Any]) -> bool:
    """Return whether the request's server ends what is under way: why a task was cancelled that nobody else
    ended.

    Whoever is cancelled then has a few seconds to say so to its client.
    """
    state: ConnectionState | None = scope.get(_STATE)
    return state is not None and state.is_ending


def uncancel_at_end(scope: MutableMapping[str, Any]) -> bool:
    """Take back the cancellation of this task if it comes from the end of the request's server.

    Returns whether it does; what cancelled the task otherwise is raised again by the caller.
    """
    if not is_server_stopping(scope):
        return False
    if (task := asyncio.current_task()) is not None:
        task.uncancel()
    return True
