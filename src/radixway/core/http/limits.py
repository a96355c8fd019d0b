"""Limits on what clients may send to a server, and counts of those that sent more."""

from __future__ import annotations

import resource
from contextlib import suppress
from dataclasses import dataclass

_OWN_FILES = 64
"""Files that a process needs beside its connections: databases, logs, pipes, what it follows."""
_MAX_CONNECTIONS = 16_384
"""By default, however many files may be open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits on what a client may send, and on the time it may take.

    The section `limits.server` says what each means.
    """

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

        Half of them are for connections to workers, so that whoever is served can be served to the end.
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
    """Idle connections that were closed for new ones."""
    refused_connections: int = 0
    files_exhausted: int = 0
    """Seconds in which no more files could be opened."""


def raise_file_limit() -> None:
    """Let this process open as many files as it may: the lower limit is for programs that use select().

    Where the system allows less than it says (macOS: no limit at all), the limit stays as it is.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
