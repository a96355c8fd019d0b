"""Reads what `nvidia-smi` says of the GPUs of a machine; nothing where there is none."""

import asyncio
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Any

_QUERY_FIELDS = "driver_version,name,memory.total,memory.used,utilization.gpu,uuid"
_MB = 1 << 20
_GOOD_FOR_S = 5.0
_PROGRAM_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class GpuStatus:
    """A GPU as it was a moment ago. None: not reported, as a MIG slice's load."""

    driver: str
    name: str
    total_mb: float | None
    used_mb: float | None
    busy: float | None
    """Load in per cent."""
    uuid: str
    """The driver's name."""

    def hardware_info(self) -> dict[str, Any]:
        """`WorkerGPUInfo`."""
        return {"name": self.name, "total_memory": int((self.total_mb or 0) * _MB)}

    def utilization_info(self) -> dict[str, Any]:
        """`GPUMetricsInfo`."""
        share = None
        if self.total_mb and self.used_mb is not None:
            share = round(100.0 * self.used_mb / self.total_mb, 1)
        return {"gpu_usage": self.busy, "mem_usage": share}


class GpuMonitor:
    """Belongs to one event loop. Asks again after some seconds, and not at all without `nvidia-smi`."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        """`clock`: seconds that only go up."""
        self._clock = clock
        self._program = shutil.which("nvidia-smi")
        self._known: list[GpuStatus] = []
        self._read_at = -_GOOD_FOR_S
        self._lock = asyncio.Lock()

    async def read_gpus(self) -> list[GpuStatus]:
        """Return the GPUs by number."""
        async with self._lock:
            if self._program is not None and self._clock() >= self._read_at + _GOOD_FOR_S:
                self._known = parse_nvidia_smi(await _run_program(self._program))
                self._read_at = self._clock()
        return self._known


def parse_nvidia_smi(output: str) -> list[GpuStatus]:
    """Lines of `nvidia-smi --query-gpu=… --format=csv,noheader,nounits`; what is none is left out."""
    rows = ([field.strip() for field in line.split(",")] for line in output.splitlines())
    return [
        GpuStatus(row[0], row[1], _parse_number(row[2]), _parse_number(row[3]), _parse_number(row[4]), row[5])
        for row in rows
        if len(row) == _QUERY_FIELDS.count(",") + 1
    ]


def _parse_number(field: str) -> float | None:
    try:
        return float(field)
    except ValueError:  # [N/A], [Not Supported] …
        return None


async def _run_program(program: str) -> str:
    try:
        process = await asyncio.create_subprocess_exec(
            program,
            f"--query-gpu={_QUERY_FIELDS}",
            "--format=csv,noheader,nounits",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
    except OSError:
        return ""
    try:
        async with asyncio.timeout(_PROGRAM_TIMEOUT_S):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return ""
    return output.decode("utf-8", "replace") if process.returncode == 0 else ""
