"""The figures of two tiers, as RouteLLM defines them."""

import numpy as np
import pytest

from evaluation.routing import Readings, Table, evaluate_tiers, tiers_of
from evaluation.routing.tiers import figures_of

WEAK_STRONG = np.array([[1, 1]] * 50 + [[0, 1]] * 30 + [[0, 0]] * 20, np.float32)


def test_who_knows_which_questions_need_the_strong_model_recovers_all_with_those_calls():
    apgr, cpt50, cpt80, curve = figures_of(WEAK_STRONG[:, 1] - WEAK_STRONG[:, 0], WEAK_STRONG)
    assert (cpt50, cpt80) == (0.15, 0.24)
    assert apgr == pytest.approx(1 - 0.3 / 2)
    assert curve[0] == 0.5 and curve[30] == pytest.approx(0.8) and curve[100] == pytest.approx(0.8)


def test_calls_at_random_recover_half_and_the_worst_order_the_least():
    draw = np.random.default_rng(1)
    random = [figures_of(draw.random(100), WEAK_STRONG)[0] for _ in range(300)]
    assert np.mean(random) == pytest.approx(0.5, abs=0.02)
    worst = figures_of(WEAK_STRONG[:, 0] - WEAK_STRONG[:, 1], WEAK_STRONG)[0]
    assert worst == pytest.approx(0.3 / 2)


def two_models(rows, seed):
    draw = np.random.default_rng(seed)
    vectors = draw.normal(size=(rows, 16))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    right = np.stack([vectors[:, 0] < 0, np.ones(rows)], axis=1).astype(np.float32)
    table = Table(f"t{seed}", ("What is it?",) * rows, ("",) * rows, ("small", "big"), right)
    return table, Readings(vectors, np.ones((rows, 1), np.float32), ("other",))


def test_a_gain_that_the_vector_shows_is_learnt_on_the_same_questions_and_carried_to_others():
    table, readings = two_models(800, 1)
    within = evaluate_tiers(("small", "big"), table, readings)
    assert within.scored["quality head's gain"].apgr > 0.7
    assert within.weak_quality == pytest.approx(0.5, abs=0.1) and within.strong_quality == 1.0
    other, others = two_models(300, 2)
    across = evaluate_tiers(("small", "big"), other, others, (table, readings))
    assert across.trained_on == "t1" and across.questions == 300
    assert across.scored["quality head's gain"].apgr > 0.7


def test_a_strong_model_that_is_not_better_is_refused():
    table, readings = two_models(300, 1)
    with pytest.raises(ValueError, match="small is not better than big"):
        evaluate_tiers(("big", "small"), table, readings)


def test_of_two_models_the_weak_one_comes_first():
    table, _ = two_models(300, 1)
    assert tiers_of(table) == ("small", "big")
    assert tiers_of(Table("t", ("?",), ("",), ("a", "b", "c"), np.ones((1, 3), np.float32))) is None
