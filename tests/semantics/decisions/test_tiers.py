"""Models by difficulty: three tiers, or prices alone, and no thinking about easy questions."""

import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from radixway.core.config import ConfigError
from radixway.core.config.semantic import SemanticConfig, parse_semantic
from radixway.core.config.semantic.shipped_scores import find_published_scores, short_model_name
from radixway.semantics.decisions.decision_plan import DecisionPlan, SelectionPreferences, make_plan
from radixway.semantics.decisions.dry_run import every_model_is_ready
from radixway.semantics.decisions.model_selection import ModelCandidate, WeighedCandidate, choose_model
from radixway.semantics.decisions.score_feedback import ScoreFeedback
from radixway.semantics.decisions.section_validation import find_warnings
from radixway.semantics.decisions.snapshot import compile_snapshot
from radixway.semantics.decisions.verdict import judge_signals
from radixway.semantics.signals.base import DomainValue, SignalSet, SignalValue
from radixway.semantics.signals.complexity import ComplexityDetector, lexical_complexity
from radixway.semantics.signals.question import question_in
from support.command_runs import run_command
from support.running_gateway import running_gateway
from support.scripted_worker import scripted_worker

sys.path.insert(0, str(Path(__file__).parent))
from difficulty_prompts import HELD_OUT, TUNED

SUM = "What is 17 + 25?"
EMAIL = "Write a polite email asking my landlord to repair the heating."
PROOF = "Prove that there are infinitely many primes."
TIERS = {"small": "phi4-mini", "medium": "qwen3-8b", "large": {"model": "qwen3-235b", "use_reasoning": True}}
PRICES = {
    "a": {"pricing": {"prompt_per_1m": 2, "completion_per_1m": 8}},
    "b": {"pricing": {"prompt_per_1m": 0.1, "completion_per_1m": 0.3}},
    "c": {"pricing": {"prompt_per_1m": 0.5, "completion_per_1m": 1}},
}


async def plan_of(section: SemanticConfig, text: str, **domain: float) -> DecisionPlan:
    """Decide on `text` as a gateway does, with the domain's distribution given."""
    snapshot = await compile_snapshot(section, None, None)
    question = question_in(text)
    signals = SignalSet()
    signals.add_signals("complexity", ComplexityDetector().detect_signals(question, None))
    if domain:
        best = max(domain, key=domain.__getitem__)
        value = DomainValue(best, domain[best], domain, 0.0)
        signals.add_signals(
            "domain", [SignalValue("domain", "", best, True, domain[best], best, domain=value)]
        )
    verdict = judge_signals(snapshot.rules, signals)
    wish = SelectionPreferences.usual(section)
    feedback = ScoreFeedback(section.feedback)
    return make_plan(snapshot, question, signals, verdict, wish, every_model_is_ready, feedback)


@pytest.mark.parametrize(
    ("text", "model", "tier", "thinks"),
    [
        ("Hello", "phi4-mini", "small", False),
        (SUM, "phi4-mini", "small", False),
        (EMAIL, "qwen3-8b", "medium", False),
        (PROOF, "qwen3-235b", "large", True),
    ],
)
async def test_difficulty_chooses_the_tier_and_the_tier_says_whether_to_think(text, model, tier, thinks):
    plan = await plan_of(SemanticConfig(tiers=TIERS), text)
    entry = plan.explain()
    assert (entry["model"], entry["tier"], entry["reasoning"]) == (model, tier, thinks)
    assert entry["difficulty"]["score"] == round(lexical_complexity(text), 4)
    assert (entry["difficulty"]["medium_from"], entry["difficulty"]["large_from"]) == (0.2, 0.5)


async def test_without_a_medium_tier_the_large_one_answers_its_questions():
    section = SemanticConfig(tiers={"small": "s", "large": "l"})
    assert [(await plan_of(section, text)).choice.best.model for text in (SUM, EMAIL)] == ["s", "l"]


async def test_one_model_may_stand_in_two_tiers_with_and_without_thinking():
    section = SemanticConfig(tiers={"small": "m", "large": {"model": "m", "use_reasoning": True}})
    plans = [await plan_of(section, text) for text in (SUM, PROOF)]
    assert [(plan.choice.best.model, plan.reasoning.on) for plan in plans] == [("m", False), ("m", True)]


async def test_thresholds_are_configurable():
    section = SemanticConfig(tiers=TIERS | {"medium_from": 0.05, "large_from": 0.1})
    assert (await plan_of(section, SUM)).explain()["tier"] == "large"


async def test_prices_alone_are_tiers():
    section = SemanticConfig(model_config=PRICES)
    models = [(await plan_of(section, text)).choice.best.model for text in (SUM, EMAIL, PROOF)]
    assert models == ["b", "c", "a"]


@pytest.mark.parametrize(
    "beside",
    [
        {"default_model": "a"},
        {"policy_rules": [{"name": "r", "condition": "true", "action": "route", "models": ["a"]}]},
    ],
)
def test_prices_are_no_tiers_where_something_else_chooses(beside):
    assert SemanticConfig(model_config=PRICES, **beside).tier_models() == {}


@pytest.mark.parametrize(
    ("tiers", "fault"),
    [
        ({"small": "s"}, "both small and large"),
        ({"medium": "m", "large": "l"}, "both small and large"),
        ({"small": "s", "large": "l", "medium_from": 0.6}, "medium_from must not be above large_from"),
        ({"small": "s", "large": {"name": "l"}}, "large"),
    ],
)
def test_tiers_that_cannot_be_used_are_refused(tiers, fault):
    with pytest.raises(ValidationError, match=fault):
        SemanticConfig(tiers=tiers)


def scored(**keys) -> SemanticConfig:
    scores = [
        {"model": "big", "score": 1.0, "use_reasoning": True},
        {"model": "good", "score": 0.85, "use_reasoning": False},
        {"model": "poor", "score": 0.5, "use_reasoning": False},
    ]
    prices = {"big": 10, "good": 1, "poor": 0.1}
    models = {name: {"pricing": {"completion_per_1m": price}} for name, price in prices.items()}
    return SemanticConfig(categories=[{"name": "math", "model_scores": scores}], model_config=models, **keys)


async def test_within_a_category_easy_questions_take_the_cheapest_that_is_good_enough():
    section = scored(tiers={"small": "s", "large": "l"})
    easy, hard = [await plan_of(section, text, math=0.99, law=0.01) for text in (SUM, PROOF)]
    assert (easy.choice.best.model, easy.choice.reason) == ("good", "cheap_as_easy")
    assert hard.choice.best.model == "big" and hard.reasoning.on
    other = await plan_of(section, PROOF, law=0.99, math=0.01)
    assert (other.choice.best.model, other.choice.best.tier) == ("l", "large")


async def test_without_tiers_a_category_is_chosen_by_score_as_before():
    assert (await plan_of(scored(), SUM, math=0.99, law=0.01)).choice.best.model == "big"


async def test_an_easy_question_is_not_thought_about_for_its_category_or_entropy_alone():
    sure, unsure = {"math": 0.99, "law": 0.01}, {"math": 0.5, "law": 0.5}
    for shares in (sure, unsure):
        plan = await plan_of(scored(), SUM, **shares)
        assert (plan.reasoning.on, plan.reasoning.reason) == (False, "easy_question")
        assert (await plan_of(scored(), PROOF, **shares)).reasoning.on
        assert (await plan_of(scored(reasoning={"easy": True}), SUM, **shares)).reasoning.on


def weighed(model, score, cost):
    return WeighedCandidate(ModelCandidate(model, score), cost, 0.0, True)


@pytest.mark.parametrize(("weight", "model"), [(1.0, "big"), (0.7, "good"), (0.0, "poor")])
def test_the_weight_of_quality_sets_score_against_price(weight, model):
    models = [weighed("big", 1.0, 10), weighed("good", 0.9, 1), weighed("poor", 0.3, 0.1)]
    assert choose_model(models, "best", 0.8, weight).best.model == model


def test_a_configuration_in_which_all_goes_to_the_default_model_is_warned_of():
    warned = dict(find_warnings(SemanticConfig(default_model="phi4")))
    assert "semantic.tiers" in warned["default_model"] and "'phi4'" in warned["default_model"]
    assert not dict(find_warnings(SemanticConfig(default_model="phi4", tiers=TIERS)))
    assert not dict(find_warnings(scored(default_model="phi4")))


def test_a_check_of_the_configuration_prints_the_warning(tmp_path):
    file = tmp_path / "radixway.yaml"
    file.write_text("semantic: {default_model: phi4}\n")
    result = run_command("config", "check", file)
    assert result.exit_code == 0, result.output
    assert "warning: every request for auto goes to default_model 'phi4'" in result.output


def test_a_file_of_tiers_alone_is_valid():
    section = parse_semantic("tiers: {small: a, large: b}\ncategories: [{name: law}]\n", Path("config.yaml"))
    assert section.is_on and section.model_names() == ["a", "b"]


SERVED = {
    "meta-llama/Llama-3.1-70B-Instruct": {"pricing": {"prompt_per_1m": 0.9, "completion_per_1m": 0.9}},
    "Phi-3-mini-4k-instruct-AWQ": {"pricing": {"prompt_per_1m": 0.1, "completion_per_1m": 0.1}},
    "our-math": {"scored_as": "mathstral-7B", "pricing": {"prompt_per_1m": 0.2, "completion_per_1m": 0.2}},
}


@pytest.mark.parametrize(
    ("text", "domain", "model"),
    [
        (PROOF, {"math": 0.9}, "meta-llama/Llama-3.1-70B-Instruct"),
        (SUM, {"math": 0.9}, "Phi-3-mini-4k-instruct-AWQ"),
        (EMAIL, {"other": 0.9}, "meta-llama/Llama-3.1-70B-Instruct"),
    ],
)
async def test_published_scores_choose_by_subject_and_prices_where_it_is_easy(text, domain, model):
    section = SemanticConfig(model_config=SERVED, shipped_scores=True)
    assert (await plan_of(section, text, **domain)).choice.best.model == model


async def test_the_weight_of_quality_sets_published_scores_against_prices():
    section = SemanticConfig(model_config=SERVED, shipped_scores=True, preference={"quality_weight": 0.4})
    plan = await plan_of(section, PROOF, psychology=0.9)
    assert plan.choice.best.model == "Phi-3-mini-4k-instruct-AWQ"


def test_published_scores_leave_configured_ones_alone_and_may_stand_for_several_subjects():
    scores = [{"model": "x", "score": 1, "use_reasoning": True}]
    own = {"name": "sciences", "mmlu_categories": ["biology", "chemistry"]}
    section = SemanticConfig(
        model_config=SERVED, shipped_scores=True, categories=[own, {"name": "law", "model_scores": scores}]
    )
    found = {category.name: category for category in section.scored_categories()}
    assert found["law"].model_scores[0].model == "x"
    assert not {"biology", "chemistry"} & found.keys() and len(found) == 13
    by_model = {score.model: score.score for score in found["sciences"].model_scores}
    mathstral = find_published_scores("mathstral-7B")
    assert by_model["our-math"] == pytest.approx((mathstral["biology"] + mathstral["chemistry"]) / 2)


def test_models_without_published_scores_are_told():
    section = SemanticConfig(model_config=SERVED | {"mine": {}}, shipped_scores=True)
    warned = dict(find_warnings(section))
    assert "'mine'" in warned["shipped_scores"] and "scored_as" in warned["shipped_scores"]
    with pytest.raises(ConfigError, match=r"(?s)shipped_scores.*mine"):
        parse_semantic("shipped_scores: true\nmodel_config: {mine: {}}\n", Path("config.yaml"))


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("Meta-Llama-3_1-8B-Instruct", "llama-3.1-8b"),
        ("RedHatAI/Llama-3.1-8B-Instruct-quantized.w8a8", "llama-3.1-8b"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "qwen3-235b-a22b-2507"),
        ("google/gemma-3-4b-it", "gemma-3-4b"),
        ("Phi-4-mini-instruct-Q4_K_M.gguf", "phi-4-mini"),
    ],
)
def test_a_models_name_is_known_in_the_forms_in_which_it_is_served(name, short):
    assert short_model_name(name) == short


@pytest.mark.parametrize(("prompts", "least"), [(TUNED, 29), (HELD_OUT, 27)])
def test_everyday_prompts_are_judged_as_people_would(prompts, least):
    tiers = SemanticConfig().tiers
    agreed = [
        tiers.level_of(lexical_complexity(text)) == level
        for level, texts in prompts.items()
        for text in texts
    ]
    assert len(agreed) == 30 and sum(agreed) >= least


async def test_a_gateway_with_tiers_alone_explains_its_choice():
    tiers = {"small": "s", "large": "l"}
    async with scripted_worker(models=["s", "l"]) as worker:
        async with running_gateway(worker.url, semantic={"tiers": tiers}) as running:
            for text, model, tier in ((SUM, "s", "small"), (PROOF, "l", "large")):
                messages = [{"role": "user", "content": text}]
                status, _, headers = await running.chat(model="auto", messages=messages)
                assert (status, headers["x-vsr-selected-model"]) == (200, model)
                assert worker.requests[-1].json()["model"] == model
                _, told = await running.get(f"/explain/{headers['x-request-id']}")
                entry = next(step for step in told["steps"] if step["step"] == "semantic")
                assert entry["tier"] == tier and entry["difficulty"]["large_from"] == 0.5


def test_classify_shows_tier_score_and_thresholds(tmp_path):
    file = tmp_path / "radixway.yaml"
    file.write_text("semantic: {tiers: {small: s, large: l}}\n")
    result = run_command("classify", SUM, "--config", file)
    assert result.exit_code == 0, result.output
    shown = dict(line.split() for line in result.stdout.splitlines() if len(line.split()) == 2)
    assert (shown["tier"], shown["model"], shown["difficulty_level"]) == ("small", "s", "easy")
    assert (shown["difficulty_score"], shown["difficulty_large_from"]) == ("0.13", "0.5")
