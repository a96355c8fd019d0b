"""Writes log lines in a thread, so that logging never blocks on a slow reader.

No writer thread runs at the end of a process or in a forked child. There, the logging thread writes.
"""

import atexit
import os
import select
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from typing import IO

Line = Callable[[], str]
"""Makes a line, without its end."""

_MAX_QUEUED_LINES = 10_000
"""Lines that wait at most; more are dropped and counted."""
_GATHERING_S = 0.1
"""Time that lines gather before they are written: to wake a thread costs as much as a hundred lines."""
_LINES_PER_WRITE = 500
_EXIT_FLUSH_S = 2.0
"""Time for the last lines at the end of the process."""


class LineWriter:
    """Writes to `stream()`, asked for with each write. Falls silent when the reader is gone."""

    def __init__(
        self,
        stream: Callable[[], IO[str]],
        on_broken_pipe: Callable[[], None],
        own: Callable[[str], str],
        max_lines: int = _MAX_QUEUED_LINES,
        gathering_s: float = _GATHERING_S,
    ) -> None:
        """`own`: formats a notice about the lines themselves. `gathering_s`: how long lines gather."""
        self.lost = 0
        """Lines dropped because the queue was full."""
        self._stream = stream
        self._on_broken_pipe = on_broken_pipe
        self._own = own
        self._max_lines = max_lines
        self._gathering_s = gathering_s
        self._waiting: deque[Line] = deque()
        self._reported_lost = 0
        self._writes_directly = False
        """No writer thread runs: `put_nowait` writes."""
        self._exit_wait_s = _EXIT_FLUSH_S
        """Time left for `put_nowait` to wait for the reader."""
        self._make_locks()
        _writers.add(self)
        atexit.register(self._write_at_exit)

    def put_nowait(self, line: Line) -> None:
        """Have a line written soon. From any thread; never waits while a thread can write.

        Where none can, because the interpreter ends or has no thread to give, the line is written here, and
        waits for its reader at most `_EXIT_FLUSH_S` less what earlier ones have waited.
        """
        if len(self._waiting) >= self._max_lines:
            self.lost += 1
            return
        self._waiting.append(line)
        if self._writes_directly or sys.is_finalizing():
            self._write_waiting()
        elif not self._wanted.is_set():
            self._wanted.set()
            if not self._start_thread():
                self._wanted.clear()  # the next line tries again
                self._write_waiting()

    def end_gathering(self) -> None:
        """Have what waits written at once: the process may be killed."""
        self._hurry.set()

    def flush_lines(self, timeout_s: float) -> bool:
        """Wait at most `timeout_s` until all waiting lines are written; return whether they were."""
        self._hurry.set()
        try:
            with self._written:
                return self._written.wait_for(lambda: not (self._waiting or self._writing), timeout_s)
        finally:
            self._hurry.clear()

    def unregister(self) -> None:
        """Unregister an unused writer."""
        atexit.unregister(self._write_at_exit)

    def _make_locks(self) -> None:
        self._wanted = threading.Event()
        """Set while lines wait, and while the thread looks for more."""
        self._hurry = threading.Event()
        """Set where lines may not gather any longer."""
        self._written = threading.Condition()
        self._writing = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._turn = threading.RLock()
        """Held while writing; reentrant, because a finalizer may log in the writing thread."""

    def _write_at_exit(self) -> None:
        """Write what waits at the end of the process, and from then on each line directly."""
        self._writes_directly = True
        began = time.monotonic()
        self.flush_lines(self._exit_wait_s)
        self._exit_wait_s = max(0.0, self._exit_wait_s - (time.monotonic() - began))
        self._write_waiting()

    def _reset_after_fork(self) -> None:
        """The process was forked and has no thread. It may end at any moment (`os._exit`): nothing waits."""
        self._waiting.clear()  # the parent writes these
        self._make_locks()
        self._writes_directly = True

    def _start_thread(self) -> bool:
        """Start the thread unless it runs; return False if none can start."""
        if self._thread is None or not self._thread.is_alive():
            with self._starting:
                if self._thread is None or not self._thread.is_alive():
                    thread = threading.Thread(target=self._write_loop, name="radixway-logs", daemon=True)
                    try:
                        thread.start()
                    except RuntimeError:
                        return False
                    self._thread = thread
        return True

    def _write_loop(self) -> None:
        while True:
            self._wanted.wait()
            self._hurry.wait(self._gathering_s)
            self._hurry.clear()
            if not self._waiting:  # whoever adds a line after this wakes the thread
                self._wanted.clear()
            while self._waiting:
                self._writing = True
                with self._turn:
                    self._write_some()
                self._writing = False
            with self._written:
                self._written.notify_all()

    def _write_waiting(self) -> None:
        """Write what waits, dropping what is not read in time; never raises."""
        began = time.monotonic()
        if self._turn.acquire(timeout=self._exit_wait_s):
            try:
                until = began + self._exit_wait_s
                while self._waiting:
                    self._write_some(until)
            finally:
                self._turn.release()
        self._exit_wait_s = max(0.0, self._exit_wait_s - (time.monotonic() - began))

    def _take_lines(self) -> list[str]:
        """Return the waiting lines. Raises what rendering raises, even of the line about lost lines."""
        lines: list[str] = []
        while self._waiting and len(lines) < _LINES_PER_WRITE:
            make = self._waiting.popleft()
            try:
                lines.append(make())
            except Exception as error:  # noqa: BLE001  the next line may be one
                lines.append(self._own(f"a line could not be written: {type(error).__name__}"))
        lost = self.lost
        if lost > self._reported_lost:
            unseen = lost - self._reported_lost
            lines.append(self._own(f"{unseen} lines were lost because they were not read fast enough"))
            self._reported_lost = lost
        return lines

    def _write_some(self, until: float | None = None) -> None:
        """Write until `until` (`time.monotonic`), or without limit for None."""
        try:
            text = "\n".join(self._take_lines()) + "\n"
            stream = self._stream()
            if (descriptor := _descriptor_of(stream)) is None:
                stream.write(text)
                stream.flush()
            else:
                _write_bytes(
                    descriptor,
                    text.encode(getattr(stream, "encoding", None) or "utf-8", "backslashreplace"),
                    until,
                )
        except BrokenPipeError:
            self._on_broken_pipe()
        except Exception:  # noqa: BLE001  it is closed, or gone with the interpreter
            pass


def _descriptor_of(stream: IO[str]) -> int | None:
    """Return the stream's descriptor, or None.

    A thread stopped within the stream's buffer lock would crash the interpreter at its end.
    """
    try:
        return stream.fileno()
    except (AttributeError, OSError):
        return None


def _write_bytes(descriptor: int, left: bytes, until: float | None) -> None:
    ready = select.poll()
    ready.register(descriptor, select.POLLOUT)
    while left:
        if until is not None and not ready.poll(max(0.0, until - time.monotonic()) * 1e3):
            return
        try:  # as much as a pipe takes at once where it is ready, so that this does not wait either
            left = left[os.write(descriptor, left if until is None else left[: select.PIPE_BUF]) :]
        except BlockingIOError:  # the stream was made non-blocking
            ready.poll(None if until is None else 0)


_writers: weakref.WeakSet[LineWriter] = weakref.WeakSet()


def _reset_writers_after_fork() -> None:
    for writer in _writers:
        writer._reset_after_fork()


os.register_at_fork(after_in_child=_reset_writers_after_fork)
