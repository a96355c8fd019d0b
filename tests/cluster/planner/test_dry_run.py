"""`radixway plan` as a user meets it."""

import json

import pytest

from radixway.core.config import ConfigError, load_config
from support.command_runs import run_command
from support.planned_traffic import trace
from support.simulated_traces import write


@pytest.fixture(scope="module")
def busy(tmp_path_factory):
    """Two minutes of traffic that falls to a tenth in the middle."""
    requests = trace(lambda at: 20.0 if at < 60 else 2.0, 120, prompt=1500, output=40)
    return write(tmp_path_factory.mktemp("traces") / "trace.jsonl", requests)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "radixway.yaml"
    path.write_text(
        "scale:\n  planner:\n    forecast: constant\n    interval_s: 15\n    scale_down_patience_s: 10\n"
        "    max_replicas: 8\n    profile: {startup_s: 5}\n"
    )
    return path


def plan(*args):
    return run_command("plan", *args)


def test_a_trace_is_planned_for_and_the_report_says_what_became_of_it(busy, config, tmp_path):
    figures = tmp_path / "plan.json"
    told = plan("--trace", busy, "--config", config, "--start", 4, "--window-s", 15, "--json", figures)
    assert told.exit_code == 0, told.stderr
    assert "windows of 15 s" in told.stdout
    assert "by forecast" in told.stdout
    found = json.loads(figures.read_bytes())
    proposed = [each["roles"]["any"]["replicas"] for each in found["plans"]]
    assert proposed[-1] < max(proposed)
    assert found["windows"]["all"] == 8
    assert found["replicas"]["mean"] < found["replicas"]["most"]
    assert found["objective"]["ttft_s"] == 2.0


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--trace", "/no/such/trace"], "cannot read /no/such/trace"),
        (["--speedup", "0"], "speedup must be above 0"),
        (["--json", "/no/such/place/plan.json"], "cannot write /no/such/place/plan.json"),
    ],
)
def test_what_cannot_be_planned_ends_in_one_sentence_and_exit_code_2(busy, config, args, why):
    given = args if "--trace" in args else ["--trace", busy, *args]
    told = plan("--config", config, *given)
    assert told.exit_code == 2
    assert why in told.stderr
    assert len(told.stderr.strip().splitlines()) == 1


def test_a_mistake_in_the_configuration_is_told_with_its_line(busy, tmp_path):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("scale:\n  planner:\n    min_replicas: 4\n    max_replicas: 2\n")
    told = plan("--config", wrong, "--trace", busy)
    assert told.exit_code == 2
    assert "max_replicas must be at least min_replicas" in told.stderr
    assert "wrong.yaml:2" in told.stderr


def test_a_trace_whose_times_are_no_milliseconds_since_its_beginning_is_refused_at_once(tmp_path):
    line = '{"timestamp": %d, "input_length": 9, "output_length": 1, "hash_ids": []}\n'
    trace = tmp_path / "epoch.jsonl"
    trace.write_text(line % 0 + line % 1_763_769_600_000)
    told = plan("--trace", trace)
    assert told.exit_code == 2
    assert "timestamps are milliseconds since the trace began" in " ".join(told.stderr.split())


@pytest.mark.parametrize(
    ("planner", "key"),
    [
        ("profile: {startup_s: .inf}", "startup_s"),
        ("profile: {startup_s: 1.0e+30}", "startup_s"),
        ("profile: {context_s: 1.0e+308}", "context_s"),
        ("profile: {decode_s: .nan}", "decode_s"),
        ("max_replicas: 1000000000000", "max_replicas"),
        ("objective: {itl_s: .inf}", "itl_s"),
    ],
)
def test_figures_with_which_nothing_can_be_counted_are_refused_before_anything_is_planned(
    tmp_path, planner, key
):
    path = tmp_path / "radixway.yaml"
    path.write_text(f"scale:\n  planner:\n    {planner}\n")
    with pytest.raises(ConfigError, match=key):
        load_config(path)
