"""Ports for servers that must know theirs before they start, safe among tests that run side by side."""

from __future__ import annotations

import itertools
import os
import random
import socket

_FIRST, _LAST = 15_000, 32_000
"""Below the ports that the kernel gives away by itself, to connections of anybody."""

_order = itertools.count(random.Random(os.getpid()).randrange((_LAST - _FIRST) // 2))


def find_port() -> int:
    """One of which the next one is free too. No process is given the same twice, nor, as a rule, are two."""
    while True:
        port = _FIRST + 2 * (next(_order) % ((_LAST - _FIRST) // 2))
        if _is_free(port) and _is_free(port + 1):
            return port


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
