"""Which of a machine's GPUs is the engine's."""

from __future__ import annotations

from radixway.core.telemetry.gpus import parse_nvidia_smi
from radixway.engine.server.metrics import EngineGpuMonitor, select_utilisation

THREE = (
    "550.90.07, NVIDIA H200, 143771, 14377, 50, GPU-5f1c0000-0000-0000-0000-000000000001\n"
    "550.90.07, NVIDIA H200, 143771, 14377, 75, GPU-5f1c0000-0000-0000-0000-000000000002\n"
    "550.90.07, NVIDIA H200 MIG 1g.18gb, 18176, [N/A], [N/A], GPU-5f1c0000-0000-0000-0000-000000000003\n"
)


def test_it_is_found_by_the_drivers_name_for_it_whatever_its_number_is_in_the_process() -> None:
    gpus = parse_nvidia_smi(THREE)
    assert select_utilisation(gpus, "5f1c0000-0000-0000-0000-000000000002") == {"1": 0.75}
    assert select_utilisation(gpus, "5f1c0000-0000-0000-0000-000000000003") == {}, "a slice does not tell"
    assert select_utilisation(gpus, "of another machine") == select_utilisation([], "5f1c") == {}


async def test_an_engine_on_a_cpu_asks_nobody() -> None:
    assert await EngineGpuMonitor("cpu").read_utilisation() == {}
