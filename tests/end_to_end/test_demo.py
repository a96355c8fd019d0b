"""The tour of `make demo` goes to its end."""

import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).parents[2] / "tools" / "demo.py"


@pytest.mark.slow
def test_the_tour_ends_well(free_port: int) -> None:
    ran = subprocess.run(
        [sys.executable, str(DEMO), "--port", str(free_port)], capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "24 of 24 answered" in ran.stdout
