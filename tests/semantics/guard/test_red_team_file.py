"""The red-team files say what tests and readers rely on; what the guard makes of them is tested elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parents[2] / "data" / "guard"
DISGUISES = {
    *("none", "base64", "hex", "rot13", "leetspeak", "homoglyphs"),
    *("zero_width", "spacing", "reversed", "mixed", "full_width", "bidi"),
}
KINDS = {"prompt_injection", "instruction_override", "adversarial_prompt", "social_engineering"}


def rows(name: str) -> list[dict[str, Any]]:
    lines = (HERE / name).read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_every_disguise_has_attacks_and_harmless_neighbours() -> None:
    counts = Counter((row["disguise"], row["attack"]) for row in rows("red_team.jsonl"))
    assert {disguise for disguise, _ in counts} == DISGUISES
    assert all(counts[disguise, True] >= 6 and counts[disguise, False] >= 4 for disguise in DISGUISES)


def test_attacks_have_a_type_and_harmless_texts_have_none() -> None:
    for row in rows("red_team.jsonl"):
        assert (row["type"] in KINDS) if row["attack"] else (row["type"] is None), row["id"]
        assert row["speaker"] in {"user", "tool", "document"}, row["id"]
        assert ("text" in row) != ("turns" in row), row["id"]


@pytest.mark.parametrize("name", ["red_team.jsonl", "red_team_answers.jsonl"])
def test_no_two_rows_share_an_id_or_a_text(name: str) -> None:
    found = rows(name)
    said = [json.dumps([row.get(key) for key in ("system", "text", "turns", "answer")]) for row in found]
    assert len({row["id"] for row in found}) == len(set(said)) == len(found)


def test_no_invisible_character_stands_raw_in_the_file() -> None:
    text = (HERE / "red_team.jsonl").read_text("utf-8")
    assert not set(text) & set(
        "\u200b\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2060\ufeff\u00ad"
    )


def test_answers_leak_the_prompt_or_carry_data_out_or_do_neither() -> None:
    counts = Counter(row["finding"] for row in rows("red_team_answers.jsonl"))
    assert set(counts) == {"system_prompt", "exfiltration", None}
    assert min(counts.values()) >= 8
