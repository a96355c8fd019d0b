"""Which model of several, and how it is told to think and under which prompt."""

import json
import random
from dataclasses import dataclass

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.config.semantic import CATEGORIES, AbSplit, FeedbackConfig, ModelPricing, ReasoningFamily
from radixway.semantics.decisions.model_selection import (
    ModelCandidate,
    WeighedCandidate,
    choose_model,
    pareto_front,
    pick_ab_split,
    weigh_candidates,
)
from radixway.semantics.decisions.reasoning_mode import thinking_fields
from radixway.semantics.decisions.score_feedback import ScoreFeedback
from radixway.semantics.decisions.system_prompts import SHIPPED_PROMPTS, inject_system_prompt


def weighed(model, score, cost=0.0, latency_s=0.0, available=True):
    return WeighedCandidate(ModelCandidate(model, score), cost, latency_s, available)


BIG = weighed("big", 0.95, cost=10, latency_s=2.0)
FAST = weighed("fast", 0.85, cost=5, latency_s=0.1)
CHEAP = weighed("cheap", 0.80, cost=1, latency_s=1.0)
POOR = weighed("poor", 0.30, cost=0.1, latency_s=0.05)
DOMINATED = weighed("dominated", 0.79, cost=6, latency_s=1.5)
ALL = [DOMINATED, POOR, CHEAP, FAST, BIG]


@pytest.mark.parametrize(("preference", "best"), [("best", "big"), ("fast", "fast"), ("cheap", "cheap")])
def test_a_preference_chooses_on_the_front_among_those_that_are_good_enough(preference, best):
    choice = choose_model(ALL, preference, min_share=0.8)
    assert choice.best.model == best
    assert {each.candidate.model for each in choice.ranked} == {"big", "fast", "cheap", "poor", "dominated"}


def test_nobody_on_the_front_is_dominated():
    assert DOMINATED not in pareto_front(ALL) and len(pareto_front(ALL)) == 4


@given(st.lists(st.tuples(*[st.integers(0, 3)] * 3), min_size=1, max_size=8))
def test_the_front_holds_the_best_the_cheapest_and_the_fastest(rows):
    front = pareto_front([weighed(str(i), s, c, t) for i, (s, c, t) in enumerate(rows)])
    assert max(each.candidate.score for each in front) == max(row[0] for row in rows)
    assert min(each.cost for each in front) == min(row[1] for row in rows)
    assert min(each.latency_s for each in front) == min(row[2] for row in rows)


def test_who_cannot_answer_comes_last():
    choice = choose_model([weighed("best", 1.0, available=False), weighed("second", 0.5)], "best", 0.8)
    assert [each.candidate.model for each in choice.ranked] == ["second", "best"]
    none = choose_model([weighed("best", 1.0, available=False)], "best", 0.8)
    assert none.best.model == "best" and none.reason == "best_though_none_is_ready"


@dataclass
class State:
    workers: int
    seconds: float

    def expected_ttft_s(self, prompt_tokens: int) -> float:
        return self.seconds * prompt_tokens


def test_price_is_of_both_sides_and_time_is_what_the_workers_were_measured_at():
    states = {"m": State(1, 0.01)}
    pricing = {"m": ModelPricing(prompt_per_1m=2, completion_per_1m=8)}
    known, unknown = weigh_candidates(
        [ModelCandidate("m", 1), ModelCandidate("n", 1)], pricing, states.get, 100, 50
    )
    assert known.cost == pytest.approx((100 * 2 + 50 * 8) / 1e6)
    assert known.latency_s == pytest.approx(1.0) and known.available
    assert not unknown.available and unknown.cost == 0


def test_a_split_keeps_a_session_and_shares_out_by_weight():
    splits = [AbSplit(name="s", category="math", models={"a": 3, "b": 1})]
    assert pick_ab_split(splits, "law", "x") is None
    models = [pick_ab_split(splits, "math", f"session-{number}")[1] for number in range(2000)]
    assert 0.70 < models.count("a") / 2000 < 0.80
    assert models == [pick_ab_split(splits, "math", f"session-{number}")[1] for number in range(2000)]


def test_judgements_move_a_score_towards_them_and_each_request_is_judged_once():
    feedback = ScoreFeedback(FeedbackConfig(strength=10, remembered=2))
    for request in "abc":
        feedback.remember_decision(request, "math", "m")
    assert feedback.record_feedback("a", 0.0) is None  # forgotten: only two are remembered
    assert feedback.record_feedback("b", 0.0) == ("math", "m") and feedback.record_feedback("b", 0.0) is None
    assert feedback.current_score("math", "m", 1.0) == pytest.approx(10 / 11)
    assert feedback.current_score("law", "m", 0.7) == pytest.approx(0.7)


def test_thompson_sampling_finds_the_better_model_and_then_stays_with_it():
    rng = random.Random(7)
    feedback = ScoreFeedback(FeedbackConfig(strength=4, explore=True), rng)
    worth = {"worse": 0.3, "better": 0.8}
    chosen = []
    for number in range(400):
        model = max(worth, key=lambda name: feedback.current_score("math", name, 0.5))
        feedback.remember_decision(str(number), "math", model)
        feedback.record_feedback(str(number), float(rng.random() < worth[model]))
        chosen.append(model)
    assert chosen[-200:].count("better") > 180


KWARGS = ReasoningFamily(type="chat_template_kwargs", parameter="enable_thinking")
EFFORT = ReasoningFamily(type="reasoning_effort", parameter="reasoning_effort")
NESTED = ReasoningFamily(type="reasoning_effort", parameter="reasoning.effort")
THINKING = ReasoningFamily(type="thinking", parameter="thinking")


@pytest.mark.parametrize(
    ("body", "family", "on", "fields"),
    [
        ({}, None, True, {}),
        ({}, KWARGS, True, {"chat_template_kwargs": {"enable_thinking": True}}),
        (
            {"chat_template_kwargs": {"x": 1, "enable_thinking": True}},
            KWARGS,
            False,
            {"chat_template_kwargs": {"x": 1, "enable_thinking": False}},
        ),
        (
            {"chat_template_kwargs": "odd"},
            KWARGS,
            False,
            {"chat_template_kwargs": {"enable_thinking": False}},
        ),
        ({"reasoning_effort": "low"}, EFFORT, True, {"reasoning_effort": "high"}),
        ({"reasoning_effort": "minimal"}, EFFORT, False, {"reasoning_effort": "minimal"}),
        ({}, EFFORT, False, {"reasoning_effort": "low"}),
        (
            {"reasoning": {"summary": "auto"}},
            NESTED,
            True,
            {"reasoning": {"summary": "auto", "effort": "high"}},
        ),
        ({"thinking": {"budget": 9}}, THINKING, False, {"thinking": {"budget": 9, "type": "disabled"}}),
    ],
)
def test_thinking_is_said_as_each_family_reads_it(body, family, on, fields):
    assert thinking_fields(body, family, on, "high") == fields


def injected(messages, prompt="P", mode="replace"):
    found = inject_system_prompt(json.dumps(messages).encode(), prompt, mode)
    return None if found is None else json.loads(msgspec.json.encode(found))


SYSTEM, USER = {"role": "system", "content": "S", "name": "n"}, {"role": "user", "content": "U"}


def test_prompts_are_replaced_inserted_or_left_off():
    assert injected([USER]) == [{"role": "system", "content": "P"}, USER]
    assert injected([SYSTEM, USER]) == [{**SYSTEM, "content": "P"}, USER]
    assert injected([SYSTEM, USER], mode="insert") == [{**SYSTEM, "content": "P\n\nS"}, USER]
    assert injected([SYSTEM, USER], mode="off") is None and injected([USER], prompt="") is None


def test_a_developers_message_and_one_in_parts_count_as_system_messages():
    developer = {"role": "developer", "content": [{"type": "text", "text": "D"}]}
    whole = injected([developer, USER], mode="insert")
    assert whole[0]["role"] == "developer"
    assert [part["text"] for part in whole[0]["content"]] == ["P\n\n", "D"]


@pytest.mark.parametrize("mode", ["replace", "insert"])
def test_putting_a_prompt_in_a_second_time_changes_nothing(mode):
    once = injected([SYSTEM, USER], mode=mode)
    assert injected(once, mode=mode) is None


def test_shipped_prompts_cover_every_category_in_both_languages_with_disclaimers():
    assert set(SHIPPED_PROMPTS) == set(CATEGORIES)
    assert all(text.en and text.zh for name, text in SHIPPED_PROMPTS.items() if name != "other")
    assert "not legal advice" in SHIPPED_PROMPTS["law"].en and "法律意见" in SHIPPED_PROMPTS["law"].zh
    assert "medical advice" in SHIPPED_PROMPTS["health"].en and "医疗建议" in SHIPPED_PROMPTS["health"].zh
