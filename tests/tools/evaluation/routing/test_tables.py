"""Tables of correctness are read from files that may be wrong, and split without twins across the cut."""

import json

import numpy as np
import pytest

from evaluation.routing import SAMPLE, near_duplicates, read_tables
from evaluation.routing.tables import split


def write(path, *rows):
    path.write_text("\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows))
    return path


def test_rows_become_a_table_for_each_set_and_a_model_that_was_not_asked_is_no_number(tmp_path):
    rows = (
        {"question": "2 + 2?", "category": "math", "correct": {"a": 1, "b": 0}},
        {"question": "3 + 3?", "category": "math", "correct": {"a": 1}},
        {"question": "Who?", "correct": {"c": 0}, "set": "other"},
    )
    tables = read_tables(write(tmp_path / "mine.jsonl", *rows))
    assert set(tables) == {"mine", "other"}
    np.testing.assert_array_equal(tables["mine"].of(("b", "a")), [[0, 1], [np.nan, 1]])
    assert tables["other"].categories == ("",)


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("{", "line 2: not JSON"),
        ({"correct": {}}, "line 2: needs a string in `question`"),
        ({"question": "?", "correct": {"a": 0.5}}, "line 2: needs `correct`"),
        ({"question": "?", "correct": {}, "set": 3}, "line 2: `category` and `set`"),
    ],
)
def test_a_wrong_row_is_named(tmp_path, row, said):
    path = write(tmp_path / "mine.jsonl", {"question": "?", "correct": {"a": 1}}, row)
    with pytest.raises(ValueError, match=said):
        read_tables(path)


def test_a_file_without_rows_is_refused(tmp_path):
    with pytest.raises(ValueError, match="no rows"):
        read_tables(write(tmp_path / "mine.jsonl"))


def test_the_sample_has_every_pool_and_both_pairs():
    tables = read_tables(SAMPLE)
    assert {name: len(table.questions) for name, table in tables.items()} == {
        "mmlu_pro": 1660,
        "mmlu": 1500,
        "gsm8k": 300,
    }
    assert len(tables["mmlu_pro"].models) == 29
    assert tables["mmlu"].models == ("mixtral_8x7b", "gpt4")


def test_twins_of_twins_are_one_group_and_stand_on_one_side():
    angles = np.array([0.0, 1.5, 0.3, 0.6, 3.0])
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    groups = near_duplicates(vectors)
    assert groups[0] == groups[2] == groups[3]
    assert len(set(groups)) == 3
    for seed in range(20):
        train = split(groups, seed, 0.7)
        assert train[0] == train[2] == train[3]
        assert 0 < train.sum() < len(train)
