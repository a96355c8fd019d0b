"""`radixway simulate` as a user meets it."""

import json
import subprocess
import sys
from importlib.abc import MetaPathFinder

import pytest
from typer.testing import CliRunner

from radixway.cli import app
from support.simulated_traces import conversations, write


@pytest.fixture
def trace(tmp_path):
    return write(tmp_path / "trace.jsonl", conversations(5, 4))


def simulate(*args):
    return CliRunner(env={"NO_COLOR": "1"}).invoke(app, ["simulate", *map(str, args)])


def test_a_comparison_is_printed_and_written(trace, tmp_path):
    figures, report = tmp_path / "figures.json", tmp_path / "new" / "report"
    policies = ["expected_time", "kv_aware:overlap_weight=8", "round_robin"]
    told = simulate(
        trace,
        "--workers",
        2,
        "--kv-tokens",
        9000,
        "--policy",
        ",".join(policies),
        "--json",
        figures,
        "--report",
        report,
    )
    assert told.exit_code == 0, told.stderr
    for policy in policies:
        assert policy in told.stdout
    found = json.loads(figures.read_bytes())
    assert list(found["policies"]) == policies
    assert found["policies"]["expected_time"]["ttft_mean_s"] > 0
    assert found["policies"]["expected_time"]["hit_rate"] > 0.5
    assert 1 <= found["policies"]["round_robin"]["imbalance"] < 2
    assert found["setting"]["workers"] == 2
    assert found["setting"]["block_tokens"] == 16
    assert found["constants"]["step_s"] == 0.008
    assert (report / "simulation.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    page = (report / "simulation.html").read_text()
    assert "data:image/png;base64," in page
    assert all(policy in page for policy in policies)


class NoMatplotlib(MetaPathFinder):
    def find_spec(self, fullname, path, target=None):
        if fullname.partition(".")[0] == "matplotlib":
            raise ModuleNotFoundError(name="matplotlib")


def test_without_matplotlib_a_sentence_says_so_and_the_rest_is_there(trace, tmp_path, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [NoMatplotlib(), *sys.meta_path])
    told = simulate(trace, "--policy", "random", "--report", tmp_path / "report")
    assert told.exit_code == 0
    assert "radixway[simulate]" in told.stderr
    assert "<td>" in (tmp_path / "report" / "simulation.html").read_text()


def test_requests_that_fit_nowhere_are_reported(trace):
    told = simulate(trace, "--kv-tokens", 160, "--policy", "random")
    assert told.exit_code == 0
    assert "10 requests were skipped" in told.stderr


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--policy", "fastest"], "fastest"),
        (["--policy", "random,random"], "twice"),
        (["--workers", "0"], "workers must be at least 1"),
        (["--workers", "99999999"], "workers must be at most 10000"),
        (["--speedup", "0"], "speedup must be above 0"),
        (["--kv-tokens", "16"], "none of the 20 requests fits"),
        (["--engine", "warp=9"], "warp=9"),
        (["--json", "/no/such/place/figures.json"], "/no/such/place/figures.json"),
        (["--report", "/dev/null/report"], "/dev/null"),
    ],
)
def test_what_cannot_be_simulated_ends_in_one_sentence_and_exit_code_2(trace, options, why):
    told = simulate(trace, *options)
    assert told.exit_code == 2
    assert why in told.stderr
    assert len(told.stderr.strip().splitlines()) == 1
    assert not told.stdout


def test_a_missing_trace_ends_the_process_in_one_sentence_and_exit_code_2():
    command = [sys.executable, "-m", "radixway", "simulate", "/no/such/trace"]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert told.returncode == 2
    assert told.stderr.strip() == "radixway: cannot read /no/such/trace: No such file or directory"
