"""examples/ray_serve: the application, deployed by its file and asked both ways; the router elsewhere."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

pytest.importorskip("ray")

EXAMPLE = Path(__file__).parents[2] / "examples" / "ray_serve"
WITHIN_S = 600


@pytest.fixture
def env(tmp_path):
    folder = tempfile.mkdtemp(prefix="rw-", dir="/tmp")  # sockets' paths must be short
    yield {**os.environ, "RAY_TMPDIR": folder, "RADIXWAY_HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
    shutil.rmtree(folder, ignore_errors=True)


def run(env, *command: str) -> str:
    ran = subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=WITHIN_S, env=env, cwd=EXAMPLE
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@pytest.mark.slow
def test_the_application_answers_over_http_and_by_handle(env, free_port):
    ours = {"RAY_ADDRESS": f"127.0.0.1:{free_port}", "RADIXWAY__GATEWAY__PORT": str(free_port + 1)}
    head = ["start", "--head", f"--port={free_port}", "--num-cpus=16", "--include-dashboard=false"]
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    subprocess.run(
        [*ray, *head, "--disable-usage-stats"], env=env, check=True, capture_output=True, timeout=WITHIN_S
    )
    try:
        env |= ours
        deployed = run(env, "-m", "radixway", "ray", "deploy", "radixway.yaml")
        assert re.search(r"engine +healthy +2 running", deployed), deployed
        asked = run(env, "ask.py", "--url", f"http://127.0.0.1:{free_port + 1}")
        over_http, by_handle = re.fullmatch(r"over HTTP, by \S+: (.+)\nby handle: (.+)\n", asked).groups()
        assert over_http == by_handle, "both are greedy"
    finally:
        subprocess.run([*ray, "stop"], env=env, check=True, capture_output=True, timeout=WITHIN_S)


@pytest.mark.slow
def test_questions_behind_the_same_system_prompt_go_to_the_same_replica(env):
    printed = run(env, "own_deployment.py")  # Ray writes lines of its own between them
    rows = re.findall(r"^(history|physics|cooking) +(\w+)\? +(\w+)$", printed, re.MULTILINE)
    places = {topic: {replica for said, _, replica in rows if said == topic} for topic, *_ in rows}
    assert len(rows) == 9 and all(len(replicas) == 1 for replicas in places.values()), printed
