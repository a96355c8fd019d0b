"""`python tools/evaluate.py routing`, as it is typed."""

import gzip
import json

import pytest
from typer.testing import CliRunner

from evaluation.commands import app
from evaluation.routing import SAMPLE


@pytest.fixture
def some_rows(tmp_path):
    """The first questions of the sample."""
    with gzip.open(SAMPLE, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    short = [row for row in rows if len(row["question"]) < 150]
    chosen = [row for row in short if row["set"] == "mmlu_pro"][:150]
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in chosen))
    return path


def test_figures_are_printed_written_and_drawn(some_rows, tmp_path):
    figures, plot = tmp_path / "figures.json", tmp_path / "plot.svg"
    arguments = [
        "routing",
        "--data",
        str(some_rows),
        "--pool",
        "7–8B",
        "--cache",
        str(tmp_path / "c.npz"),
    ]
    result = CliRunner().invoke(app, [*arguments, "--json", str(figures), "--plot", str(plot)])
    assert result.exit_code == 0, result.output
    written = json.loads(figures.read_text())
    (pool,), (pair,) = written["pools"], written["tiers"]
    assert pool["questions"] == 150 and pool["pool"] == "7–8B"
    assert 0 < pool["best_quality"] < pool["any_right"] <= 1
    assert set(pair["scored"]) >= {"quality head's gain", "words alone"}
    assert "quality head" in result.output and plot.read_text().startswith("<?xml")


def test_what_cannot_be_read_is_said_in_a_sentence(tmp_path):
    bad = tmp_path / "bad.jsonl"
    bad.write_text("{}")
    result = CliRunner().invoke(app, ["routing", "--data", str(bad)])
    assert result.exit_code == 2
    assert "needs a string in `question`" in result.output.replace("\n", " ")
