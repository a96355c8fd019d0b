"""Of processes that end with whoever started them."""

from __future__ import annotations

import os
import signal
import sys
import threading


def terminate_when_stdin_closes() -> None:
    """Whoever started us holds the other end of our standard input: when they die, however hard, so do we."""

    def wait() -> None:
        while os.read(sys.stdin.fileno(), 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, daemon=True, name="stdin watch").start()
