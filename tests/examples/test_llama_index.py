"""examples/llama_index, in an environment of its own that pip makes; skipped where pip cannot."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.engine_process import engine_process
from support.gateway_process import gateway_process

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama_index"


@pytest.fixture(scope="module")
def python(tmp_path_factory) -> str:
    """With LlamaIndex and nothing of Radixway."""
    folder = tmp_path_factory.mktemp("llama") / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    interpreter = str(folder / "bin" / "python")
    install = [
        interpreter,
        "-m",
        "pip",
        "install",
        "-q",
        "--retries",
        "0",
        "-r",
        str(EXAMPLE / "requirements.txt"),
    ]
    installed = subprocess.run(install, capture_output=True, text=True)
    if installed.returncode:
        pytest.skip(f"pip cannot install LlamaIndex here: {installed.stderr.splitlines()[-1:]}")
    return interpreter


@pytest.mark.slow
def test_it_streams_calls_a_tool_and_queries_an_index(python, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with engine_process() as (engine, _):
        with gateway_process(tmp_path / "g", {"gateway": {"port": 0}, "workers": [{"url": engine}]}) as (
            url,
            _,
        ):
            ran = subprocess.run(
                [python, str(EXAMPLE / "ask.py"), "--url", url], capture_output=True, text=True, timeout=300
            )
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"^streamed: \w+", ran.stdout)
    assert re.search(
        r"^tool: requests_in_hand\(\{'worker': 'gpu([12])'\}\) = [30]$", ran.stdout, re.MULTILINE
    )
    assert re.search(r"^indexed: \S", ran.stdout, re.MULTILINE)
