"""What `python tools/evaluate.py cache` measures, and what it says of files it cannot read."""

import gzip
import json

import pytest
from typer.testing import CliRunner

from evaluation.cache import PAIRS, Judged, NotPairs, Pair, figures, read_pairs, trails
from evaluation.commands import app


def judged(cosine, same, reason="same", likelihood=0.9, one="Which one is it?"):
    return Judged(Pair(one, "Which one is that?", same), cosine, reason, likelihood)


FOUR = [
    judged(0.96, True),
    judged(0.86, True, "content", 0.2),
    judged(0.92, False, "numbers", 0.0),
    judged(0.70, False, likelihood=0.6),
]


def test_recall_false_hits_and_precision_are_counted_at_each_threshold():
    alone, verified = figures(FOUR, (0.85, 0.95)).curves
    assert [(p.recall, p.false_hits, p.precision) for p in alone.points] == [(1, 0.5, 2 / 3), (0.5, 0, 1)]
    assert [(p.recall, p.false_hits, p.precision) for p in verified.points] == [(0.5, 0, 1), (0.5, 0, 1)]
    assert (alone.auc, verified.auc) == (0.75, 0.75)


def test_what_the_verifier_refused_is_counted_by_reason():
    result = figures(FOUR)
    assert result.refused_same == {"content": 1}
    assert result.refused_different == {"numbers": 1}


def test_texts_compared_by_characters_have_a_threshold_of_their_own():
    assert judged(0.95, True, one="这是什么？").is_served(0.85)
    assert not judged(0.93, True, one="这是什么？").is_served(0.85)
    assert judged(0.86, True).is_served(0.85)


def test_shares_of_nothing_are_none_and_not_a_number():
    result = figures([judged(0.9, True)])
    assert result.curves[0].points[0].false_hits is None and result.curves[0].auc is None
    with pytest.raises(NotPairs):
        trails([judged(0.9, True)])


def test_a_trail_ends_with_everything_its_demand_lets_through():
    ends = {name: (false_hits[-1], recall[-1]) for name, false_hits, recall in trails(FOUR)}
    assert ends["cosine alone"] == (1, 1)
    assert ends["verifier, along the cosine"] == (0.5, 0.5)


@pytest.mark.parametrize(
    "row",
    [
        {"one": "a", "other": "b", "same": True},
        {"a": "a", "b": "b", "label": 1},
        {"question1": "a", "question2": "b", "is_duplicate": 1},
        {"origin": "a", "similar": "b"},
    ],
)
def test_labelled_pairs_are_read_in_every_layout_gzipped_or_not(tmp_path, row):
    plain, packed = tmp_path / "pairs.jsonl", tmp_path / "pairs.jsonl.gz"
    plain.write_text(json.dumps(row) + "\n\n")
    packed.write_bytes(gzip.compress(json.dumps(row).encode()))
    assert read_pairs(plain) == read_pairs(packed) == [Pair("a", "b", True)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"one": "a", "other": "b", "same": true}\n{"one": "a"}', "line 2: neither"),
        ('{"one": "a", "other": "b", "same": "maybe"}', "line 1: same is 'maybe'"),
        ('{"one": "a", "other": "b", "same": [1]}', "line 1: same is [1]"),
        ("[1]", "line 1: neither"),
        ("{", "line 1: no JSON"),
        ("", "holds no pairs"),
    ],
)
def test_a_file_that_holds_no_pairs_is_told_with_its_line(tmp_path, content, said):
    path = tmp_path / "pairs.jsonl"
    path.write_text(content)
    with pytest.raises(NotPairs, match=said.replace("[", r"\[")):
        read_pairs(path)


def test_what_ships_has_pairs_of_both_kinds_in_both_languages():
    pairs = read_pairs(PAIRS)
    assert {(pair.same, pair.one.isascii()) for pair in pairs} >= {(a, b) for a in (0, 1) for b in (0, 1)}


def test_the_command_prints_writes_and_draws(tmp_path):
    data, written, drawn = (tmp_path / name for name in ("pairs.jsonl", "figures.json", "curve.svg"))
    rows = (
        {"one": "How do I reset my password?", "other": "How can I reset my password?", "same": True},
        {"one": "What is 12x7?", "other": "What is 12x8?", "same": False},
    )
    data.write_text("\n".join(map(json.dumps, rows)))
    options = ["--data", str(data), "--json", str(written), "--plot", str(drawn)]
    result = CliRunner().invoke(app, ["cache", *options])
    assert result.exit_code == 0, result.output
    assert "with the verifier" in result.output and "must miss: 0 of" in result.output
    points = json.loads(written.read_text())["figures"]["curves"][1]["points"]
    assert [(p["recall"], p["false_hits"]) for p in points if p["threshold"] == 0.85] == [(1.0, 0.0)]
    assert "<svg" in drawn.read_text()


def test_a_missing_file_ends_the_command_in_words(tmp_path):
    result = CliRunner().invoke(app, ["cache", "--data", str(tmp_path / "none.jsonl")])
    assert result.exit_code == 2
