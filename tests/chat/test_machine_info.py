"""What a worker tells of its machine, and what it reads from a file."""

from __future__ import annotations

import inspect
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from radixway.chat.worker import machine_info
from radixway.cli import app
from radixway.core.telemetry.gpus import GpuMonitor, parse_nvidia_smi

worker_module = sys.modules["radixway.cli.worker"]

TWO = (
    "550.90.07, NVIDIA H200, 143771, 14377, 50, GPU-5f1c\n"
    "550.90.07, NVIDIA H200 MIG 1g.18gb, 18176, [N/A], [N/A], GPU-77aa\n"
)


def test_gpus_are_told_in_the_published_shapes_and_the_overviews() -> None:
    gpus = parse_nvidia_smi(TWO)
    told = machine_info.describe_hardware(gpus)
    assert told["nvidia_driver_version"] == "550.90.07"
    assert told["gpus"][0] == {"name": "NVIDIA H200", "total_memory": 143771 << 20}
    metrics = machine_info.measure_metrics(gpus)
    assert metrics["gpus"] == [
        {"gpu_usage": 50.0, "mem_usage": 10.0},
        {"gpu_usage": None, "mem_usage": None},
    ]
    assert (metrics["gpu_utilization"], metrics["memory_used"]) == (50.0, 14377.0)


@pytest.mark.parametrize("output", ["", "No devices were found\n", "a, b\n"])
def test_a_machine_without_gpus_says_so(output: str) -> None:
    assert parse_nvidia_smi(output) == []
    assert (
        machine_info.measure_metrics(parse_nvidia_smi(output))["gpus"] is None
        and machine_info.describe_hardware(parse_nvidia_smi(output))["gpus"] == []
    )


async def test_the_program_is_asked_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text(f"#!/bin/sh\necho asked >> {tmp_path}/asked\nprintf '{TWO}'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    now = [100.0]
    gpus = GpuMonitor(lambda: now[0])
    assert await gpus.read_gpus() == await gpus.read_gpus() == parse_nvidia_smi(TWO)
    now[0] += 5
    await gpus.read_gpus()
    assert (tmp_path / "asked").read_text() == "asked\n" * 2


@pytest.fixture
def worked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the command would have worked with."""
    found: list[dict[str, Any]] = []

    own = (
        inspect.signature(worker_module._run_replicas),
        inspect.signature(worker_module._served_model),
    )
    known = {name for each in own for name in each.parameters} - {"serving", "served"}

    async def note(**given: Any) -> None:
        assert set(given) == known
        found.append(given)

    monkeypatch.setattr(worker_module, "_run_replicas", note)
    return found


def test_variables_may_stand_in_a_file_below_the_environment_and_the_command(
    tmp_path: Path, worked: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "worker.env"
    file.write_text(
        "API_KEY=from-file\nBACKEND_URL: ws://file:1  # the server\n"
        "INFERENCE_SERVER_URL=http://file:2\nMAX_PARALLEL_REQUESTS=9\nREPLICAS=5\nUNKNOWN=1\n"
    )
    monkeypatch.setenv("API_KEY", "from-environment")
    result = CliRunner().invoke(
        app, ["worker", "--env-file", str(file), "--server", "ws://command:3"], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    (given,) = worked
    assert (given["api_key"], given["server"]) == ("from-environment", "ws://command:3")
    assert (given["backend_url"], given["max_parallel_requests"], given["replicas"]) == (
        "http://file:2",
        9,
        5,
    )


def test_what_is_wrong_with_the_file_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "worker.env"
    file.write_text("API_KEY=a\nwhat is this\n")
    result = CliRunner().invoke(app, ["worker", "--env-file", str(file)])
    assert result.exit_code == 2 and "worker.env:2" in re.sub(r"[\s│]", "", result.output)
    missing = CliRunner().invoke(app, ["worker", "--env-file", str(tmp_path / "nothing")])
    assert missing.exit_code == 2
