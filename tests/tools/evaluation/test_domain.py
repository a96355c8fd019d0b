import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from evaluation.commands import app
from evaluation.domain import ROWS, LabelledText, evaluate_domain, read_rows
from evaluation.domain_picture import draw
from radixway.semantics.encoders import TextEncoding
from radixway.semantics.encoders.heads.domain_head import DomainReading

DOMAINS = ("law", "math", "other")


class FirstWord:
    """A head that takes a text's first word for its domain."""

    labels = DOMAINS

    def classify_domain(self, text, encoding):
        label = text.split()[0]
        shares = {each: 0.8 if each == label else 0.1 for each in self.labels}
        return DomainReading(label, 0.8, shares, 0.5)


class NoStates:
    def encode(self, texts, *, layers=()):
        return [TextEncoding(np.zeros(4, np.float32), 0, np.zeros((0, 2), np.int32)) for _ in texts]


def figures_of(*rows):
    return evaluate_domain(FirstWord(), NoStates(), [LabelledText(*row) for row in rows])


def test_sets_are_told_apart_and_each_label_has_its_precision_recall_and_f1():
    figures = figures_of(
        ("law of torts", "law", "one"),
        ("law of sines", "math", "one"),
        ("math please", "math", "one"),
        ("other things", "other", "two"),
    )
    assert list(figures) == ["one", "two"]
    assert figures["two"].scores.accuracy == 1
    per_label = figures["one"].scores.per_label()
    law, math = per_label["law"], per_label["math"]
    assert (law.rows, law.precision, law.recall, law.f1) == (1, 0.5, 1.0, pytest.approx(2 / 3))
    assert (math.rows, math.precision, math.recall, math.f1) == (2, 1.0, 0.5, pytest.approx(2 / 3))


def test_a_label_that_the_head_does_not_know_is_refused_by_name():
    with pytest.raises(ValueError, match="knows no alchemy"):
        figures_of(("gold", "alchemy", "one"))


def test_rows_are_read_from_the_layout_of_the_given_data_gzipped_or_not(tmp_path):
    rows = [{"question": "1 + 1", "category": "math"}, {"text": "sue", "label": "law", "set": "mine"}]
    lines = "\n".join(map(json.dumps, rows))
    (tmp_path / "exam.jsonl").write_text(lines)
    with gzip.open(tmp_path / "exam.jsonl.gz", "wt") as file:
        file.write(lines)
    expected = [LabelledText("1 + 1", "math", "exam"), LabelledText("sue", "law", "mine")]
    assert read_rows(tmp_path / "exam.jsonl") == read_rows(tmp_path / "exam.jsonl.gz") == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [("[]", "line 3: not a JSON object"), ("{", "line 3: not a JSON"), ('{"question": 1}', "line 3: needs")],
)
def test_a_bad_line_is_named(tmp_path, line, message):
    (tmp_path / "rows.jsonl").write_text('{"question": "a", "category": "law"}\n\n' + line)
    with pytest.raises(ValueError, match=message):
        read_rows(tmp_path / "rows.jsonl")


def test_the_shipped_rows_cover_fourteen_domains_in_two_languages():
    found = {(row.set, row.label) for row in read_rows(ROWS)}
    assert len({label for _, label in found}) == 14
    assert len(found) == 28


@pytest.mark.parametrize("name", ["picture.svg", "picture.png"])
def test_the_picture_is_drawn(tmp_path, name):
    draw(figures_of(("law of sines", "math", "one"), ("math", "math", "two")), tmp_path / name)
    assert (tmp_path / name).stat().st_size > 10_000


def test_a_picture_of_another_kind_is_refused(tmp_path):
    with pytest.raises(ValueError, match="end in .svg or .png"):
        draw(figures_of(("law", "law", "one")), tmp_path / "picture.docx")


def test_the_command_measures_the_shipped_head_and_writes_its_figures(tmp_path, monkeypatch):
    monkeypatch.setenv("RADIXWAY_HOME", str(tmp_path))
    rows = [
        {"question": "Solve 2x + 5 = 17.", "category": "math"},
        {"question": "证明费马大定理", "category": "math"},
        {"question": "Why did the Roman Empire fall?", "category": "history"},
    ]
    (tmp_path / "few.jsonl").write_text("\n".join(map(json.dumps, rows)))
    written = tmp_path / "figures.json"
    arguments = [
        "domain",
        "--data",
        str(tmp_path / "few.jsonl"),
        "--json",
        str(written),
        "--confusion",
    ]
    told = CliRunner().invoke(app, arguments)
    assert told.exit_code == 0, told.output
    assert "few" in told.output
    assert json.loads(written.read_text())["few"]["accuracy"] == 1


def test_the_command_names_a_file_that_is_not_there():
    told = CliRunner().invoke(app, ["domain", "--data", str(Path("no-such.jsonl"))])
    assert told.exit_code == 2
    assert "no-such.jsonl" in told.output
