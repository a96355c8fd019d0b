"""Ends a child process when its parent dies."""

from __future__ import annotations

import os
import signal
import sys
import threading


def terminate_when_stdin_closes() -> None:
    """End this process when its parent dies, however hard: the parent holds the other end of stdin."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True, name="stdin watch").start()
