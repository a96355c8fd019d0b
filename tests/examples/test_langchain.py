"""examples/langchain, as its README starts it, before a real gateway and engine."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.engine_process import engine_process
from support.gateway_process import gateway_process

EXAMPLE = Path(__file__).parents[2] / "examples" / "langchain" / "ask.py"

pytest.importorskip("langchain_openai")


@pytest.mark.slow
def test_it_streams_calls_a_tool_and_says_where_answers_came_from(tmp_path):
    with engine_process() as (engine, _):
        with gateway_process(tmp_path / "g", {"gateway": {"port": 0}, "workers": [{"url": engine}]}) as (
            url,
            _,
        ):
            ran = subprocess.run(
                [sys.executable, str(EXAMPLE), "--url", url], capture_output=True, text=True, timeout=300
            )
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"^streamed: \w+", ran.stdout)
    assert re.search(r'^tool: requests_in_hand\(\{"worker": "gpu[12]"\}\)$', ran.stdout, re.MULTILINE)
    assert re.search(r"^with the result: \S", ran.stdout, re.MULTILINE)
    place = engine.removeprefix("http://")
    assert len(re.findall(rf"^  \S+ went to {place} by expected_time$", ran.stdout, re.MULTILINE)) == 2
