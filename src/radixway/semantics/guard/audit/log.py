"""The audit log of a running gateway: takes incidents on the event loop, writes them in its own thread."""

import asyncio
import logging
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from time import time
from typing import Any, TypeVar

from radixway.core.config import ConfigError
from radixway.semantics.guard.audit.entry import (
    EntryHasher,
    Fields,
    format_entry_time,
    incident_fields,
    name_or_digest,
)
from radixway.semantics.guard.audit.hash_chain import HashChain, HashChainError
from radixway.semantics.guard.audit.pseudonyms import FILE, PseudonymStore
from radixway.semantics.guard.incident import GuardIncident

log = logging.getLogger(__name__)

T = TypeVar("T")

_DAY_S = 86_400
_MAX_BATCH_ENTRIES = 1000
_MAX_WAITING_ENTRIES = 50_000
"""Entries kept while the disk fails; further ones are counted and lost."""
_IDLE_S = 3600.0
_FAILURES = (OSError, HashChainError, sqlite3.Error)


class AuditUnavailableError(Exception):
    """The log cannot be written now; the text says why."""


@dataclass(frozen=True, slots=True)
class _PendingEntry:
    at: float
    what: GuardIncident | Fields


@dataclass(frozen=True, slots=True)
class _LogTask:
    do: Callable[[], Any]
    done: Future[Any]

    def fail(self, error: Exception) -> None:
        if self.done.set_running_or_notify_cancel():
            self.done.set_exception(error)

    def run(self) -> None:
        if not self.done.set_running_or_notify_cancel():
            return
        try:
            self.done.set_result(self.do())
        except Exception as error:  # noqa: BLE001  the waiter gets any error
            self.done.set_exception(error)


class AuditLog:
    """An `IncidentRecorder`. Open it before use; `close_log` writes what waits."""

    def __init__(
        self,
        directory: Path,
        seal: EntryHasher,
        *,
        retention_days: int | None = None,
        max_file_bytes: int = 64 * 2**20,
        retry_s: float = 1.0,
        timeout_s: float = 5.0,
        clock: Callable[[], float] = time,
    ) -> None:
        """`retry_s`: after how long a write that failed is tried again. `timeout_s`: how long
        `flush_entries` and `run_on_pseudonyms` wait.
        """
        self.directory = directory
        self.entries = 0
        """Entries written since the start."""
        self.lost = 0
        """Entries that there was no room for."""
        self.problem: str | None = None
        """The reason why the log cannot be written now."""
        self._chain = HashChain(directory, seal, max_file_bytes=max_file_bytes)
        self._people: PseudonymStore | None = None
        self._retention_days = retention_days
        self._retry_s = retry_s
        self._timeout_s = timeout_s
        self._clock = clock
        self._queue: SimpleQueue[_PendingEntry | _LogTask | None] = SimpleQueue()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run_writer, name="radixway-audit", daemon=True)
        self._reported_lost = 0
        self._swept_on = -1

    async def open_log(self) -> None:
        """Find the end of the chain, and begin to write. Raises ConfigError for files that cannot be used."""
        try:
            await asyncio.to_thread(self._open_files)
        except _FAILURES as error:
            raise ConfigError(f"guard.audit: {self.directory} cannot be used: {error}") from error
        self._thread.start()

    async def close_log(self) -> None:
        """Write what waits, unless the disk fails, and let go of the files."""
        self._stopping.set()
        self._queue.put(None)
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)
        if self._people is not None:
            self._people.close()

    def record_incident(self, incident: GuardIncident) -> None:
        self._enqueue_entry(incident)

    def record_event(self, kind: str, **fields: Any) -> None:
        """Record something else than an incident; `fields` are JSON values that hold no text of anybody's."""
        named = {name: name_or_digest(fields[name]) for name in ("tenant",) if name in fields}
        self._enqueue_entry({"kind": kind, **fields, **named})

    async def flush_entries(self) -> None:
        """Wait until everything is on the disk that was recorded by now. Raises AuditUnavailableError."""
        await self.run_on_pseudonyms(lambda pseudonyms: None)

    async def run_on_pseudonyms(self, do: Callable[[PseudonymStore], T]) -> T:
        """Return what `do` returns for the pseudonyms, after what waits. Raises AuditUnavailableError."""
        people = self._people
        if people is None or self._stopping.is_set():
            raise AuditUnavailableError("the audit log is closed")
        if self.problem is not None:
            raise AuditUnavailableError(self.problem)
        done: Future[T] = Future()
        self._queue.put(_LogTask(lambda: do(people), done))
        try:
            return await asyncio.wait_for(asyncio.wrap_future(done), self._timeout_s)
        except TimeoutError:
            raise AuditUnavailableError(self.problem or "the audit log is busy") from None
        except _FAILURES as error:
            raise AuditUnavailableError(str(error)) from None

    def describe(self) -> dict[str, Any]:
        """Return what `/health` shows."""
        waiting = self._queue.qsize()
        return {"path": str(self.directory), "error": self.problem, "waiting": waiting, "lost": self.lost}

    def _enqueue_entry(self, what: GuardIncident | Fields) -> None:
        if self._queue.qsize() >= _MAX_WAITING_ENTRIES:
            self.lost += 1
        else:
            self._queue.put(_PendingEntry(self._clock(), what))

    def _open_files(self) -> None:
        self._chain.open_chain(self._clock())
        self._people = PseudonymStore(self.directory / FILE)
        self._remove_expired()

    def _run_writer(self) -> None:
        is_open = True
        while is_open:
            waiting, works, is_open = self._take_pending()
            if not self._write_with_retries(waiting, works):
                log.error("audit: %d entries could not be written: %s", len(waiting), self.problem)
                self.lost += len(waiting)
            for work in works:
                work.run()

    def _take_pending(self) -> tuple[list[_PendingEntry], list[_LogTask], bool]:
        """Return entries, tasks, and whether more is to come."""
        waiting: list[_PendingEntry] = []
        works: list[_LogTask] = []
        try:
            item = self._queue.get(timeout=_IDLE_S)
        except Empty:
            return [], [], True  # time to see what has grown old
        while item is not None:
            if isinstance(item, _LogTask):
                works.append(item)  # what came before it is written first
                break
            waiting.append(item)
            if len(waiting) >= _MAX_BATCH_ENTRIES:
                break
            try:
                item = self._queue.get_nowait()
            except Empty:
                break
        return waiting, works, item is not None

    def _write_with_retries(self, waiting: list[_PendingEntry], works: list[_LogTask]) -> bool:
        """Write until it is done; return False where the log is closed before that.

        The first failure is the result of `works`, which are not done then.
        """
        while True:
            try:
                self._write_entries(waiting)
            except _FAILURES as error:
                if self.problem is None:
                    log.error("audit: %s cannot be written, entries wait: %s", self.directory, error)
                self.problem = str(error) or type(error).__name__
                for work in works:
                    work.fail(error)
                works.clear()
                if self._stopping.wait(self._retry_s):
                    return False
            except Exception:  # the rim of the thread: a defect of ours must not end it
                log.exception("audit: writing %d entries failed unexpectedly", len(waiting))
                self.lost += len(waiting)
                return True
            else:
                if self.problem is not None:
                    log.warning("audit: %s can be written again", self.directory)
                self.problem = None
                return True

    def _write_entries(self, waiting: list[_PendingEntry]) -> None:
        now, lost = self._clock(), self.lost
        entries = [{"time": format_entry_time(each.at), **self._entry_fields(each.what)} for each in waiting]
        if lost > self._reported_lost:
            entries.append({"kind": "lost", "entries": lost - self._reported_lost})
        if entries:
            self._chain.append_entries(entries, now)
        self._reported_lost = lost
        self.entries += len(entries)
        self._remove_expired()

    def _entry_fields(self, what: GuardIncident | Fields) -> Fields:
        if not isinstance(what, GuardIncident):
            return what
        assert self._people is not None
        user = None if what.user is None else self._people.get_or_create(what.tenant, what.user)
        return incident_fields(what, user)

    def _remove_expired(self) -> None:
        """Remove expired entries once a day."""
        now = self._clock()
        today = int(now // _DAY_S)
        if self._retention_days is None or today == self._swept_on:
            return
        days = self._retention_days
        self._chain.remove_old_files(now - days * _DAY_S, now, f"retention_days={days}")
        self._swept_on = today
