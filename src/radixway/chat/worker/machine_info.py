"""The machine that a worker runs on, in the published shapes."""

import os
import platform
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from radixway.core.telemetry.gpus import GpuStatus


def describe_hardware(gpus: Sequence[GpuStatus] = ()) -> dict[str, Any]:
    """Return `HardwareInfo` of this machine and its `gpus`."""
    uname = platform.uname()
    memory = _read_memory()
    return {
        "uname_sysname": uname.system,
        "uname_release": uname.release,
        "uname_version": uname.version,
        "uname_machine": uname.machine,
        "uname_processor": uname.processor,
        "cpu_count_physical": os.cpu_count() or 1,
        "cpu_count_logical": os.cpu_count() or 1,
        "cpu_freq_max": 0.0,
        "cpu_freq_min": 0.0,
        "mem_total": memory.get("MemTotal", 0),
        "swap_total": memory.get("SwapTotal", 0),
        "nvidia_driver_version": gpus[0].driver if gpus else None,
        "gpus": [gpu.hardware_info() for gpu in gpus],
    }


def measure_metrics(gpus: Sequence[GpuStatus] = ()) -> dict[str, Any]:
    """Return `WorkerMetricsInfo`, in per cent, with the overview's names for the sums over all `gpus`."""
    memory = _read_memory()
    return {
        "created_at": datetime.now(UTC).replace(tzinfo=None).isoformat(timespec="microseconds"),
        "cpu_usage": min(100.0, 100.0 * os.getloadavg()[0] / (os.cpu_count() or 1)),
        "mem_usage": _used_percent(memory.get("MemAvailable", 0), memory.get("MemTotal", 0)),
        "swap_usage": _used_percent(memory.get("SwapFree", 0), memory.get("SwapTotal", 0)),
        "gpus": [gpu.utilization_info() for gpu in gpus] or None,
    } | _aggregate_gpus(gpus)


def _aggregate_gpus(gpus: Sequence[GpuStatus]) -> dict[str, Any]:
    busy = [gpu.busy for gpu in gpus if gpu.busy is not None]
    used = [gpu.used_mb for gpu in gpus if gpu.used_mb is not None]
    utilization = {"gpu_utilization": sum(busy) / len(busy)} if busy else {}
    return utilization | ({"memory_used": sum(used)} if used else {})


def _used_percent(free: int, total: int) -> float:
    return round(100.0 * (1 - free / total), 1) if total else 0.0


def _read_memory() -> dict[str, int]:
    """Return the memory in bytes on Linux, nothing elsewhere."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    found = (line.split() for line in lines)
    return {row[0].removesuffix(":"): int(row[1]) * 1024 for row in found if len(row) == 3}
