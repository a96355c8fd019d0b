"""Outages of the database: how they are recognised and described, and retries until it is back."""

import asyncio
import logging
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from sqlalchemy.exc import DBAPIError, SQLAlchemyError, StatementError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from radixway.chat.errors import NestingTooDeepError
from radixway.chat.notifications import wait_for_event

log = logging.getLogger(__name__)

T = TypeVar("T")

RETRY_S = 0.25
"""Pause before an unavailable database is tried again."""
_CONNECT_S = 10.0
_STATES = ("08", "25006", "40", "53", "57P")
"""SQLSTATE prefixes: connection lost, read-only, rolled back, out of resources, shutdown."""
_FULL_STATE = "53100"
_SQLITE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_READONLY,
    }
)
"""Locked for too long, or the disk is full, broken or read-only."""


class DatabaseUnavailableError(SQLAlchemyError):
    """The database cannot be reached."""


async def connect_postgresql(*args: Any, **given: Any) -> Any:
    """Connect by asyncpg, turning its errors into DatabaseUnavailableError, which SQLAlchemy knows."""
    import asyncpg

    try:
        return await asyncpg.connect(*args, **{"timeout": _CONNECT_S} | given)
    except (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise DatabaseUnavailableError(f"{type(error).__name__}: {error}") from error


@asynccontextmanager
async def translate_outages(notice: Callable[[SQLAlchemyError], None]) -> AsyncIterator[None]:
    """Raise DatabaseUnavailableError also for a connection that breaks amid a statement.

    `notice`: called with every error. Raises NestingTooDeepError for a value that cannot be written as JSON.
    """
    try:
        yield
    except SQLAlchemyError as error:
        if isinstance(error, StatementError) and isinstance(error.orig, RecursionError):
            raise NestingTooDeepError from None
        notice(error)
        raise
    except OSError as error:
        outage = DatabaseUnavailableError(type(error).__name__)
        notice(outage)
        raise outage from error


def is_outage(error: BaseException) -> bool:
    """Return whether `error` means that the database is unreachable or rolled back because of another
    transaction, rather than that a statement is wrong.
    """
    if isinstance(error, DBAPIError):
        state: str = getattr(error.orig, "sqlstate", None) or ""
        code: int = getattr(error.orig, "sqlite_errorcode", None) or 0
        return error.connection_invalidated or state.startswith(_STATES) or code & 0xFF in _SQLITE
    return isinstance(error, DatabaseUnavailableError | PoolTimeout)


def describe_outage(error: SQLAlchemyError) -> str | None:
    """Return what `error` says is wrong with the database, without addresses, paths or values; None if
    nothing is, as for a transaction that was rolled back because of another one.
    """
    if not is_outage(error):
        return None
    if isinstance(error, PoolTimeout):
        return "all connections to it are in use"
    if not isinstance(error, DBAPIError):
        return "it cannot be reached"
    state: str = getattr(error.orig, "sqlstate", None) or ""
    code: int = getattr(error.orig, "sqlite_errorcode", None) or 0
    if state.startswith("40"):
        return None
    if state == _FULL_STATE or code & 0xFF == sqlite3.SQLITE_FULL:
        return "the disk is full"
    if code & 0xFF == sqlite3.SQLITE_BUSY:
        return "another process has locked it"
    if code:
        return f"its file cannot be read or written ({getattr(error.orig, 'sqlite_errorname', code)})"
    return f"it does not answer ({state or 'disconnected'})"


async def retry_through_outages(step: Callable[[], Awaitable[T]], lost: asyncio.Event) -> T:
    """Repeat `step` while the database is unavailable, until it is done or `lost` is set.

    Only for idempotent steps. Raises SQLAlchemyError: `lost`, or another error.
    """
    while True:
        try:
            return await step()
        except SQLAlchemyError as error:
            if not is_outage(error) or lost.is_set():
                raise
            log.warning("the database is unavailable; trying again: %s", type(error).__name__)
        await wait_for_event(lost, RETRY_S)


class LeaseOutageGuard:
    """Tells a dead lease holder from one that could not renew: an outage stops all holders alike.

    After a time without an answer of the database (an outage, or this process slept), expired leases prove
    nothing: all holders then have a full lease's time to renew.
    """

    def __init__(self, lease_s: float, now: float) -> None:
        self.every_s = lease_s / 4
        """Interval between checks that the database answers."""
        self._lease_s = lease_s
        self._answered_at = now
        self._believes_at = now + lease_s / 3  # by then each holder has renewed once

    def note_answer(self, now: float) -> None:
        """Record that the database answered at `now`."""
        if not 0 <= now - self._answered_at <= self._lease_s / 2:
            self._believes_at = now + self._lease_s
        self._answered_at = now

    def doubt_s(self, now: float) -> float:
        """Return for how many seconds from `now` on expired leases prove nothing; usually 0."""
        return min(max(self._believes_at - now, 0.0), self._lease_s)
