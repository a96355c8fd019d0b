"""What the jailbreak head is trained on: texts written for it, and never what is held out."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")

from jailbreak_head.features import _label
from jailbreak_head.folds import by_family
from jailbreak_head.rows import Row
from jailbreak_head.states import Blocks
from jailbreak_head.templates import expand, sections
from radixway.semantics.guard.jailbreak.attack_reader import KINDS

TOOLS = Path(__file__).parents[2] / "tools"
WRITTEN = ("attacks_en.txt", "attacks_zh.txt", "harmless_en.txt", "harmless_zh.txt", "payloads_en.txt")


@pytest.mark.parametrize("name", WRITTEN)
def test_every_template_makes_whole_texts_the_same_ones_every_time(name):
    for _, line in sections(name):
        made = expand(line, 3)
        assert made == expand(line, 3)
        assert len(set(made)) == len(made) > 0
        assert not any("{@" in text or "|}" in text for text in made), line


@pytest.mark.parametrize("name", ["attacks_en.txt", "attacks_zh.txt"])
def test_every_family_of_attacks_has_a_kind(name):
    assert {heading.split("|")[1].strip() for heading, _ in sections(name)} <= set(KINDS)


def test_nothing_that_trains_reads_what_is_held_out():
    for path in [TOOLS / "train_jailbreak_head.py", *(TOOLS / "jailbreak_head").glob("*.py")]:
        assert "fresh" not in path.read_text(), path


def test_parts_of_what_carries_an_attack_are_harmless_and_the_border_is_left_out():
    row = Row("x" * 100, True, "indirect", None, "payloads", begin=40, end=60)
    spans = np.array([[0, 40], [40, 70], [50, 100]], np.int32)
    blocks = Blocks(np.zeros((3, 5), np.float16), np.ones(3, np.int32), spans)
    assert [_label(row, blocks, at, at + 1, True) for at in range(3)] == [0, 1, -1]


def test_a_family_is_left_out_whole_whatever_collection_its_rows_are_from():
    rows = [
        Row(f"text {at}", True, family, None, "s") for at, family in enumerate(("garak", "gptfuzz", "reveal"))
    ]
    folds = by_family(rows, np.zeros(3, bool), 2)
    assert folds[0] == folds[1] != folds[2]
