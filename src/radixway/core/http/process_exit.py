"""The end of a server's process: once it is asked to end it does, whatever hangs in it."""

from __future__ import annotations

import faulthandler
import signal
import sys
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import uvloop

_T = TypeVar("_T")

LEAVE_WITHIN_S = 15.0
"""For what is left when nothing is served any more: threads that still work, the interpreter's own end."""
_WRITE_WITHIN_S = 2.0


def exit_process_within(within_s: float) -> None:
    """End this process with status 1, if it is still there in `within_s` seconds; the latest call counts.

    Standard error then says where each thread was. It takes no thread or signal handler of Python's.
    Main thread only.
    """
    with suppress(AttributeError, OSError, RuntimeError, ValueError):  # there is no standard error
        faulthandler.dump_traceback_later(within_s, exit=True, file=sys.stderr)
    # Nobody may read standard error; then the kernel's alarm ends the process.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, within_s + _WRITE_WITHIN_S)


def cancel_process_exit() -> None:
    """Take back `end_process_within`."""
    faulthandler.cancel_dump_traceback_later()
    signal.setitimer(signal.ITIMER_REAL, 0)


def run_until_exit(serving: Coroutine[Any, Any, _T], leave_within_s: float = LEAVE_WITHIN_S) -> _T:
    """Run a server under uvloop, as the last thing that this process does; returns or raises what it does.

    From then on the process has `leave_within_s` to go. SIGTERM ends it at once, Ctrl-C does nothing more.
    """

    async def serve_to_end() -> _T:
        try:
            return await serving
        finally:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            exit_process_within(leave_within_s)

    return uvloop.run(serve_to_end())
