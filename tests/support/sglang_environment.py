"""An environment with the real `sglang` frontend: its pins are not ours, so it gets one of its own."""

import os
import subprocess
import venv
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("RADIXWAY_TEST_CACHE", Path.home() / ".cache")) / "radixway-sglang"

STEPS = [  # the frontend alone, not the CUDA packages of the engine that it comes with
    ["torch==2.13.0"],
    ["--no-deps", "sglang==0.5.23", "triton"],
    [
        *("requests", "numpy", "aiohttp", "tqdm", "pydantic", "pillow", "orjson", "psutil"),
        *("pybase64", "packaging", "starlette", "msgspec", "pyzmq", "ipython"),
    ],
]


def sglang_python() -> Path:
    """Its interpreter; the first call installs (2 GB, minutes). Skips the test where that is impossible."""
    home = FOLDER / "venv"
    python, marker = home / "bin" / "python", FOLDER / "installed"
    if marker.exists() and marker.read_text() == repr(STEPS) and python.exists():
        return python
    try:
        venv.create(home, with_pip=True, symlinks=True, clear=True)
        for packages in STEPS:
            _run([str(python), "-m", "pip", "install", "--quiet", *packages])
        _run([str(python), "-c", "import sglang; sglang.RuntimeEndpoint"])
    except (OSError, subprocess.SubprocessError) as error:
        words = (getattr(error, "stderr", "") or str(error)).strip().splitlines()
        pytest.skip(f"THE SGLANG FRONTEND IS NOT TESTED: it could not be installed into {home}: {words[-1]}")
    marker.write_text(repr(STEPS))
    return python


def _run(command: list[str]) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=1800)
