"""Lines on their way to a stream, written by a thread: whoever logs waits for no reader."""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import IO

Line = Callable[[], str]
"""Makes a line, without its end."""

_MOST_WAITING = 10_000
"""Lines; while that many wait for their reader, others are lost, and counted."""
_GATHERING_S = 0.02
"""How long lines gather until they are written: to wake a thread for each would cost more than its line."""
_AT_ONCE = 500
_FAREWELL_S = 2.0
"""How long the last lines may take at the end of the process."""


class LineWriter:
    """Writes to `stream()`, asked for with each write. Falls silent when nobody reads any more."""

    def __init__(
        self,
        stream: Callable[[], IO[str]],
        on_broken_pipe: Callable[[], None],
        own: Callable[[str], str],
        most: int = _MOST_WAITING,
    ) -> None:
        """`own`: makes a line of what there is to say of lines, in the form that all of them have."""
        self.lost = 0
        """Lines that there was no room for."""
        self._stream = stream
        self._on_broken_pipe = on_broken_pipe
        self._own = own
        self._most = most
        self._waiting: deque[Line] = deque()
        self._told_lost = 0
        self._wanted = threading.Event()
        self._written = threading.Condition()
        self._writing = False
        self._hurry = False
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        atexit.register(self.flush, _FAREWELL_S)

    def put(self, line: Line) -> None:
        """Have a line written soon. From any thread; never waits."""
        if len(self._waiting) >= self._most:
            self.lost += 1
            return
        self._waiting.append(line)
        if not self._wanted.is_set():
            self._wanted.set()
            self._start()

    def flush(self, within_s: float) -> bool:
        """Wait until everything is written that waits now; whether it was, in that time."""
        self._hurry = True
        try:
            with self._written:
                return self._written.wait_for(lambda: not (self._waiting or self._writing), within_s)
        finally:
            self._hurry = False

    def close(self) -> None:
        """Nobody will use it any more."""
        atexit.unregister(self.flush)

    def _start(self) -> None:
        """Unless it runs: in a process that was forked, it does not any more."""
        if self._thread is None or not self._thread.is_alive():
            with self._starting:
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(target=self._run, name="radixway-logs", daemon=True)
                    self._thread.start()

    def _run(self) -> None:
        while True:
            self._wanted.wait()
            if not self._hurry:
                time.sleep(_GATHERING_S)
            self._wanted.clear()
            while self._waiting:
                self._writing = True
                self._write(self._take())
                self._writing = False
            with self._written:
                self._written.notify_all()

    def _take(self) -> list[str]:
        lines: list[str] = []
        while self._waiting and len(lines) < _AT_ONCE:
            make = self._waiting.popleft()
            try:
                lines.append(make())
            except Exception as error:  # noqa: BLE001  the rim of the thread: the next line may be one
                lines.append(self._own(f"a line could not be written: {type(error).__name__}"))
        lost = self.lost
        if lost > self._told_lost:
            unseen = lost - self._told_lost
            lines.append(self._own(f"{unseen} lines were lost because they were not read fast enough"))
            self._told_lost = lost
        return lines

    def _write(self, lines: list[str]) -> None:
        stream = self._stream()
        try:
            stream.write("\n".join(lines) + "\n")
            stream.flush()
        except BrokenPipeError:
            self._on_broken_pipe()
        except (OSError, ValueError):  # it is closed, or full: who could be told?
            pass
