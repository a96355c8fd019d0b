"""Properties of the machine: device, number format, free memory."""

import contextlib
import os
from pathlib import Path
from typing import Literal

import torch

from radixway.core.usable_cores import CGROUP
from radixway.engine.errors import EngineError

BF16_CPU_FLAGS = {"avx512_bf16", "amx_bf16", "bf16"}
"""x86 and ARM names in /proc/cpuinfo. Without one of them bfloat16 is emulated, 2 to 5 times slower."""

_MEMORY_INFO = Path("/proc/meminfo")


def choose_device(wanted: Literal["auto", "cpu", "cuda"]) -> torch.device:
    """The device to run on for the configured `wanted`. Raises EngineError for CUDA if there is none."""
    has_cuda = torch.cuda.is_available()
    if wanted == "cuda" and not has_cuda:
        raise EngineError("device 'cuda' was asked for, but torch finds no CUDA device; use 'cpu' or 'auto'")
    return torch.device("cuda" if has_cuda and wanted != "cpu" else "cpu")


def choose_dtype(wanted: Literal["auto", "float32", "bfloat16"], device: torch.device) -> torch.dtype:
    """The format of weights and KV: bfloat16 where the device computes in it natively, else float32."""
    if wanted == "auto":
        native = torch.cuda.is_bf16_supported() if device.type == "cuda" else _cpu_has_bf16()
        return torch.bfloat16 if native else torch.float32
    return torch.bfloat16 if wanted == "bfloat16" else torch.float32


def measure_free_memory(device: torch.device) -> int:
    """Bytes that could be allocated on `device` now, within the container's limit."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    # Without MemAvailable (a system that is not Linux): half of what is built in.
    free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    with contextlib.suppress(OSError, StopIteration):
        lines = _MEMORY_INFO.read_text().splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    with contextlib.suppress(OSError, ValueError):
        limit = int((CGROUP / "memory.max").read_text())
        free = min(free, limit - int((CGROUP / "memory.current").read_text()))
    return max(0, free)


def _cpu_has_bf16() -> bool:
    with contextlib.suppress(OSError):
        words = set(Path("/proc/cpuinfo").read_text().split())
        return bool(words & BF16_CPU_FLAGS)
    return False
