"""The tool that trains the domain head: its data, and that it does the same twice."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn")
sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))

from domain_head.fit import Choices, fit
from domain_head.groups import near_duplicates
from domain_head.rows import (
    LABELS,
    Row,
    final_prompts,
    held_out_prompts,
    occurs,
    topics_in_training,
    written_prompts,
)


@pytest.mark.parametrize("prompts", [held_out_prompts(), final_prompts()], ids=["held out", "final"])
def test_every_label_has_held_out_prompts_in_both_languages(prompts):
    assert {(row.source[-2:], row.label) for _, row in prompts} == {
        (language, label) for language in ("en", "zh") for label in LABELS
    }


def test_no_held_out_topic_was_written_about_for_training_under_its_label():
    written = topics_in_training()
    leaks = [
        (topic, text)
        for topic, row in held_out_prompts()
        for label, text in written
        if label == row.label and text.isascii() == row.text.isascii() and occurs(topic, text)
    ]
    assert leaks == []


def test_no_held_out_prompt_is_trained_on():
    trained = {row.text for row in written_prompts()}
    assert not trained & {row.text for _, row in held_out_prompts() + final_prompts()}


def test_near_duplicates_are_one_group_and_others_are_not():
    stem = "A farmer sold seven brown cows to his neighbour for a price that was agreed upon by telephone"
    groups = near_duplicates([stem, stem + " today", "Why is the sky above the desert so deeply blue?"])
    assert groups[0] == groups[1] != groups[2]


def test_training_twice_gives_the_same_table():
    rows = [
        Row(f"{label} question number {n} about {label}", label, "tiny") for label in LABELS for n in range(3)
    ]
    one, other = (fit(rows, rows, None, Choices(iterations=5)) for _ in range(2))
    assert np.array_equal(one.ngrams, other.ngrams)
    assert one.temperature == other.temperature
