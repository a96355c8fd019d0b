"""examples/rl_rollout: the command of its README, with few steps. What it learns: tests/end_to_end."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "rl_rollout" / "train.py"
FEW = {"steps": 1, "prompts": 1, "group": 2, "max-new-tokens": 4, "threads": 1}


@pytest.mark.slow
async def test_the_training_loop_starts_its_processes_and_takes_a_step(tmp_path):
    log = tmp_path / "rows.jsonl"
    words = [word for name, value in FEW.items() for word in (f"--{name}", str(value))]
    training = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLE), *words, "--log", str(log)),
        cwd=tmp_path,
        env={**os.environ, "RADIXWAY_HOME": str(tmp_path / "home")},
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await training.communicate()
    assert training.returncode == 0, said.decode()
    (row,) = [json.loads(line) for line in log.read_text().splitlines()]
    assert row["exact"] == 1
    assert b"is now called" not in said, "the example sets keys by their present names"
