"""How busy the GPU is that the engine runs on, where `nvidia-smi` tells."""

from __future__ import annotations

from collections.abc import Sequence

from radixway.telemetry.gpus import Gpu, Gpus


class EngineGpu:
    """Belongs to one event loop. An engine on a CPU has none."""

    def __init__(self, device: str) -> None:
        self._id = uuid_of(device)
        self._gpus = Gpus() if self._id is not None else None

    async def utilisation(self) -> dict[str, float]:
        """From 0 to 1, by the GPU's number on this machine; nothing where that is not known."""
        return {} if self._gpus is None else busy_of(await self._gpus.now(), self._id)


def busy_of(gpus: Sequence[Gpu], uuid: str | None) -> dict[str, float]:
    """The same of one of these GPUs."""
    return {
        str(number): gpu.busy / 100
        for number, gpu in enumerate(gpus)
        if gpu.busy is not None and gpu.uuid.removeprefix("GPU-") == uuid
    }


def uuid_of(device: str) -> str | None:
    """What the driver calls a device of torch's: its number means little where some are hidden."""
    if not device.startswith("cuda"):
        return None
    import torch

    return str(torch.cuda.get_device_properties(torch.device(device)).uuid)
