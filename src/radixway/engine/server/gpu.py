"""How busy the GPU is that the engine runs on, where `nvidia-smi` tells."""

from __future__ import annotations

from collections.abc import Sequence

from radixway.telemetry.gpus import GpuMonitor, GpuStatus


class EngineGpuMonitor:
    """Belongs to one event loop. An engine on a CPU has none."""

    def __init__(self, device: str) -> None:
        self._id = find_gpu_uuid(device)
        self._gpus = GpuMonitor() if self._id is not None else None

    async def read_utilisation(self) -> dict[str, float]:
        """From 0 to 1, by the GPU's number on this machine; nothing where that is not known."""
        return {} if self._gpus is None else select_utilisation(await self._gpus.read_gpus(), self._id)


def select_utilisation(gpus: Sequence[GpuStatus], uuid: str | None) -> dict[str, float]:
    """The same of one of these GPUs."""
    return {
        str(number): gpu.busy / 100
        for number, gpu in enumerate(gpus)
        if gpu.busy is not None and gpu.uuid.removeprefix("GPU-") == uuid
    }


def find_gpu_uuid(device: str) -> str | None:
    """What the driver calls a device of torch's: its number means little where some are hidden."""
    if not device.startswith("cuda"):
        return None
    import torch

    return str(torch.cuda.get_device_properties(torch.device(device)).uuid)
