"""What choosing among models gains, on tables where that is known."""

import numpy as np
import pytest

from evaluation.routing import Readings, Table, evaluate_pool, pools_of
from evaluation.routing.pools import category_scores, neighbours

LABELS = ("law", "math", "other")


def questions(rows, models, right, domains, seed=0):
    """A table and readings: true categories 0, 1, 2, 0 …, vectors at random."""
    draw = np.random.default_rng(seed)
    vectors = draw.normal(size=(rows, 16))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    categories = tuple(LABELS[at % 3] for at in range(rows))
    table = Table("t", tuple(map(str, range(rows))), categories, models, right.astype(np.float32))
    return table, Readings(vectors.astype(np.float32), domains.astype(np.float32), LABELS)


def test_models_that_know_one_category_each_make_one_that_knows_all():
    rows = 300
    right = np.array([[at % 3 == model for model in range(3)] for at in range(rows)])
    figures = evaluate_pool(
        "all", ("a", "b", "c"), *questions(rows, ("a", "b", "c"), right, np.eye(3)[np.arange(rows) % 3])
    )
    assert figures.best_quality == pytest.approx(1 / 3, abs=0.1)
    for way in ("true category", "predicted category", "categories by probability", "quality head"):
        assert figures.routed[way].quality == pytest.approx(1.0)
    assert figures.any_right == 1.0 and figures.domain_accuracy == 1.0


def test_a_head_that_takes_every_question_for_one_category_gains_nothing():
    rows = 300
    right = np.array([[at % 3 == model for model in range(3)] for at in range(rows)])
    table, readings = questions(rows, ("a", "b", "c"), right, np.tile([1.0, 0, 0], (rows, 1)))
    figures = evaluate_pool("all", ("a", "b", "c"), table, readings)
    assert figures.routed["true category"].gain > 0.5
    assert figures.routed["predicted category"].gain < 0.1


def test_what_only_the_question_tells_is_learnt_by_the_quality_head_alone():
    rows = 1200
    table, readings = questions(rows, ("a", "b"), np.zeros((rows, 2)), np.full((rows, 3), 1 / 3))
    first = readings.vectors[:, 0] > 0
    table.right[:, 0], table.right[:, 1] = first, ~first
    figures = evaluate_pool("all", ("a", "b"), table, readings)
    assert figures.routed["quality head"].gain > 0.3
    assert figures.routed["quality head"].low > 0
    assert abs(figures.routed["predicted category"].gain) < 0.1


def test_questions_that_a_model_was_not_asked_are_left_out():
    rows = 300
    right = np.ones((rows, 2))
    right[:100, 0] = np.nan
    figures = evaluate_pool(
        "all", ("a", "b"), *questions(rows, ("a", "b"), right, np.eye(3)[np.arange(rows) % 3])
    )
    assert figures.questions == 200
    table, readings = questions(rows, ("a", "b"), np.full((rows, 2), np.nan), np.eye(3)[np.arange(rows) % 3])
    with pytest.raises(ValueError, match="only 0 questions"):
        evaluate_pool("all", ("a", "b"), table, readings)


def test_the_cheaper_model_is_asked_where_it_is_good_enough():
    rows, models = 300, ("Phi-3-mini-4k-instruct", "Meta-Llama-3-70B")
    right = np.array([[at % 10 != 0, True] for at in range(rows)])  # .9 of the best
    figures = evaluate_pool("all", models, *questions(rows, models, right, np.eye(3)[np.arange(rows) % 3]))
    costs = {share: cost for share, _, cost in figures.curve}
    assert costs[0.5] == pytest.approx(3.8)
    assert costs[1.0] == pytest.approx(70)


def test_a_category_with_few_questions_leans_on_the_mean():
    right = np.array([[1.0, 0.0]] * 40 + [[0.0, 1.0]], np.float32)
    scores = category_scores(right, np.array([0] * 40 + [1]), 3)
    assert scores[0, 0] > 0.98
    assert scores[1, 0] == pytest.approx((0 + 20 * 40 / 41) / 21)
    np.testing.assert_allclose(scores[2], right.mean(axis=0), rtol=1e-6)


def test_neighbours_are_the_nearest():
    known = np.eye(4, dtype=np.float32)
    values = np.arange(4, dtype=np.float32)[:, None]
    np.testing.assert_allclose(neighbours(known, known, values, 1), values)
    np.testing.assert_allclose(
        neighbours(known[:1], known, values, 99)[0, 0], 6 / (np.exp(10) + 3), rtol=1e-4
    )


def test_a_table_without_a_known_pool_is_one_pool():
    table = Table("t", ("?",), ("law",), ("a", "b", "c"), np.ones((1, 3), np.float32))
    assert pools_of(table) == {"all": ("a", "b", "c")}
