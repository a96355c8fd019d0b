"""The tool that trains the domain head: its data, and that it does the same twice."""

import numpy as np
import pytest

pytest.importorskip("scipy")

from scipy import sparse

from domain_head.chinese import ChineseChoices, fit_chinese
from domain_head.fit import Choices, fit
from domain_head.groups import near_duplicates
from domain_head.regression import regress
from domain_head.rows import (
    LABELS,
    Row,
    apart_from_development,
    balanced,
    development_prompts,
    fresh_prompts,
    written_prompts,
)
from radixway.semantics.encoders.heads.chinese_domain import HASHES, hashed_pieces
from radixway.semantics.encoders.heads.ngrams import text_features


@pytest.mark.parametrize(
    "rows", [[row for _, row in development_prompts()], fresh_prompts()], ids=["development", "fresh"]
)
def test_every_label_has_prompts_in_both_languages_that_are_not_trained_on(rows):
    assert {(row.source[-2:], row.label) for row in rows} == {
        (language, label) for language in ("en", "zh") for label in LABELS
    }
    assert not {row.text for row in written_prompts()} & {row.text for row in rows}


def test_what_is_kept_apart_from_development_prompts_is_not_about_their_topics():
    about = [Row("How does mitosis end?", "biology", "prompts_en")]
    other = [Row("mitosis, the musical", "other", "prompts_en"), Row("Was ist Mitose?", "biology", "mmlu")]
    assert apart_from_development(about + other) == other


def test_balanced_rows_weigh_the_same_for_every_label_and_exam_questions_as_before():
    rows = [Row(f"{label} {n}", label, "prompts_en") for label in LABELS for n in range(1 + len(label))]
    weighed = balanced([*rows, Row("Which of the following", "law", "mmlu", 0.8)])
    sums = {label: sum(row.weight for row in weighed[:-1] if row.label == label) for label in LABELS}
    assert max(sums.values()) == pytest.approx(min(sums.values())) == pytest.approx(len(rows) / len(LABELS))
    assert weighed[-1].weight == 0.8


def test_the_regression_separates_what_states_separate_and_what_words_separate():
    dense = np.array([[1, 0], [1, 0], [-1, 0], [-1, 0]], np.float32)
    counted = sparse.csr_array(np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]], np.float32))
    targets = np.arange(4)
    found = regress(
        dense, counted, targets, np.ones(4, np.float32), columns=4, strength=100.0, iterations=100
    )
    logits = dense @ found.states + counted @ found.ngrams + found.bias
    assert logits.argmax(axis=1).tolist() == targets.tolist()
    assert not found.ngrams[2].any()


def test_near_duplicates_are_one_group_and_others_are_not():
    stem = "A farmer sold seven brown cows to his neighbour for a price that was agreed upon by telephone"
    groups = near_duplicates([stem, stem + " today", "Why is the sky above the desert so deeply blue?"])
    assert groups[0] == groups[1] != groups[2]


def test_training_twice_gives_the_same_table():
    rows = [
        Row(f"{label} question number {n} about {label}", label, source)
        for label in LABELS
        for n, source in enumerate(["prompts_en", "mmlu", "topics_en"])
    ]
    one, other = (fit(rows, rows, None, Choices(iterations=5)) for _ in range(2))
    assert np.array_equal(one.ngrams, other.ngrams)
    assert np.array_equal(one.temperatures, other.temperatures)


CHINESE = [
    ("求圆的面积", "math"),
    ("房东不退押金", "law"),
    ("膝盖疼吃什么药", "health"),
    ("讲个笑话", "other"),
]


def chinese_rows():
    return [Row(text, label, "prompts_zh") for text, label in CHINESE]


def test_training_the_chinese_table_twice_gives_the_same():
    one, other = (fit_chinese(chinese_rows(), chinese_rows(), ChineseChoices()) for _ in range(2))
    assert np.array_equal(one.weights, other.weights)
    assert one.temperature == other.temperature


def test_the_chinese_table_knows_what_it_was_taught_and_pieces_of_it():
    table = fit_chinese(chinese_rows(), chinese_rows(), ChineseChoices())
    for text, label in [*CHINESE, ("圆的", "math"), ("房东", "law"), ("膝盖", "health"), ("笑话", "other")]:
        found = table.probabilities(text_features(text, HASHES))
        assert LABELS[int(found.argmax())] == label


def test_what_few_exam_questions_alone_have_is_no_piece_of_the_table():
    exams = [Row("椭圆的离心率", "math", "gaokao")]
    table = fit_chinese(chinese_rows() + exams, chinese_rows(), ChineseChoices())
    known = set(table.pieces.tolist())
    assert not known & set(hashed_pieces(text_features("离心率", HASHES))[0].tolist())
    assert known & set(hashed_pieces(text_features("圆的", HASHES))[0].tolist())
