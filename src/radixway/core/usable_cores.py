"""How many cores this process may keep busy."""

import os
from contextlib import suppress
from math import ceil
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
"""Limits of the container that this process runs in, on Linux."""


def count_usable_cores() -> int:
    """Return the cores of this process: by its affinity, where there is one, and its container's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):
        quota, period = (CGROUP / "cpu.max").read_text().split()
        cores = min(cores, ceil(int(quota) / int(period)))
    return max(1, cores)
