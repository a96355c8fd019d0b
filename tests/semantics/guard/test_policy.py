"""From configurations and findings to what is done, without a gateway."""

from __future__ import annotations

import pytest

from radixway.core.config import ConfigError, load_config
from radixway.core.config.guard import GuardConfig
from radixway.core.config.semantic import SemanticConfig
from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.passages import TextPassage
from radixway.semantics.guard.pii.labels import SOFT_TYPES
from radixway.semantics.guard.policy import LocatedPersonalData, filter_findings, judge_pii
from radixway.semantics.guard.rulebook import GuardRulebook

EMAIL = frozenset({"EMAIL_ADDRESS"})
BOTH = EMAIL | {"PHONE_NUMBER"}
PRIVATE, PUBLIC = {"pii_policy": {"allow_by_default": True}}, {"pii_policy": {"allow_by_default": False}}
SCORES = [{"model": "public", "score": 1, "use_reasoning": False}]


def book(semantic=None, **guard):
    section = None if semantic is None else SemanticConfig.model_validate(semantic)
    return GuardRulebook(GuardConfig.model_validate(guard), section)


def classic(**more):
    return {"model_config": {"public": PUBLIC, "private": PRIVATE}, "default_model": "public"} | more


def actions(rules, types=EMAIL, models=("public", "private", "other")):
    return [judge_pii(rules, model, types).action for model in models]


def test_nothing_is_looked_for_until_something_is_configured():
    assert not book().is_on and not book(classic(model_config={})).is_on
    assert book(enabled=True).is_on and book(pii={}).is_on and book(classic()).is_on
    assert not book(classic(), enabled=False).is_on
    rules = book(pii={}).rules_for(None, None, None)
    assert rules.pii.enabled and rules.pii.action == "report" and not rules.jailbreak.blocks


def test_the_published_policy_blocks_and_a_model_without_one_may_see_everything():
    rules = book(classic()).rules_for(None, None, None)
    assert actions(rules.pii) == ["block", None, None] and not rules.jailbreak.enabled
    allowing = {"public": {"pii_policy": {"pii_types_allowed": ["EMAIL_ADDRESS"]}}}
    rules = book(classic(model_config=allowing)).rules_for(None, None, None)
    assert actions(rules.pii, EMAIL)[0] is None
    denied = judge_pii(rules.pii, "public", BOTH)
    assert (denied.action, denied.denied) == ("block", {"PHONE_NUMBER"})
    assert judge_pii(rules.pii, None, BOTH).action == "block", "whoever is not known may be any of them"


def test_an_adapter_is_under_the_policy_of_its_model():
    model = PUBLIC | {"loras": [{"name": "public-law"}]}
    rules = book(classic(model_config={"public": model})).rules_for(None, None, None)
    assert actions(rules.pii, models=("public-law",)) == ["block"]


def test_actions_go_by_type_and_the_strictest_counts():
    pii = {"action": "mask", "actions": {"PHONE_NUMBER": "redact", "US_SSN": "block"}}
    rules = book(pii=pii).rules_for(None, None, None).pii
    both = judge_pii(rules, "m", BOTH)
    assert (both.action, both.masked, both.redacted) == ("redact", EMAIL, {"PHONE_NUMBER"})
    assert judge_pii(rules, "m", EMAIL | {"US_SSN"}).action == "block"


def test_a_private_model_may_be_shown_what_is_routed_to_it():
    rules = book(pii={"action": "route", "route_to": "private"}).rules_for(None, None, None)
    assert actions(rules.pii) == ["route", None, "route"]


def test_findings_count_by_type_and_threshold():
    rules = book(pii={"threshold": 0.8, "thresholds": {"PERSON": 0.5}, "types": ["PERSON", "AGE"]})
    here = TextPassage("", "user", ("text",))
    found = [
        LocatedPersonalData(here, PersonalDataSpan(kind, 0, 1, sure))
        for kind, sure in (("PERSON", 0.5), ("PERSON", 0.4), ("AGE", 0.79), ("AGE", 0.8), ("GPE", 0.9))
    ]
    counted = filter_findings(found, rules.rules_for(None, None, None).pii)
    assert [(each.found.type, each.found.confidence) for each in counted] == [("PERSON", 0.5), ("AGE", 0.8)]


def test_categories_have_switches_and_thresholds_of_their_own():
    categories = [
        {"name": "law", "jailbreak_enabled": True, "jailbreak_threshold": 0.9, "model_scores": SCORES},
        {"name": "math", "jailbreak_enabled": False, "pii_enabled": False, "model_scores": SCORES},
        {"name": "health", "pii_threshold": 0.4, "model_scores": SCORES},
    ]
    guard = {"prompt_guard": {"enabled": True, "threshold": 0.6}}
    rules = book(classic(categories=categories, **guard))
    law, math, health = (rules.rules_for(None, name, None) for name in ("law", "math", "health"))
    assert (law.jailbreak.threshold, health.jailbreak.threshold, health.pii.threshold) == (0.9, 0.6, 0.4)
    assert not math.jailbreak.enabled and not math.pii.enabled and law.pii.enabled
    assert law.jailbreak.blocks, "a classic guard blocks"
    alone = book(classic(categories=categories, model_config={}))
    assert (
        alone.rules_for(None, "law", None).jailbreak.blocks
        and not alone.rules_for(None, None, None).jailbreak.enabled
    )


def test_plugins_of_the_decision_that_won_go_before_its_category():
    plugins = [
        {"type": "pii", "configuration": {"enabled": True, "pii_types_allowed": ["EMAIL_ADDRESS"]}},
        {"type": "jailbreak", "configuration": {"enabled": True, "threshold": 0.3}},
    ]
    decision = {"name": "strict", "modelRefs": [{"model": "private"}], "plugins": plugins}
    rules = book(classic(model_config={}, decisions=[decision])).rules_for(None, None, "strict")
    assert (rules.jailbreak.blocks, rules.jailbreak.threshold) == (True, 0.3)
    assert actions(rules.pii, EMAIL, ("private",)) == [None]
    assert actions(rules.pii, BOTH, ("private",)) == ["block"]
    plugins[0]["configuration"] = {"enabled": True}
    rules = book(classic(decisions=[decision])).rules_for(None, None, "strict")
    assert actions(rules.pii, EMAIL, ("private",)) == ["block"], "as published: nothing is allowed"
    with pytest.raises(ValueError, match="threshold"):
        SemanticConfig.model_validate(
            {"decisions": [decision | {"plugins": [{"type": "pii", "configuration": {"threshold": 2}}]}]}
        )


def test_a_tenants_policy_changes_what_it_names_and_leaves_the_rest():
    policies = {"lax": {"pii": {"enabled": False}}, "strict": {"pii": {"action": "block"}}}
    rules = book(pii={"action": "mask", "threshold": 0.5}, policies=policies)
    assert not rules.rules_for("lax", None, None).pii.enabled
    strict = rules.rules_for("strict", None, None).pii
    assert (strict.action, strict.threshold) == ("block", 0.5)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("guard:\n  pii: {action: route}\n", "route_to"),
        ("guard:\n  pii: {thresholds: {email: 0.5}}\n", r"yaml:2: guard\.pii\.thresholds"),
        ("guard:\n  policies: {a: {pii: {model: /m}}}\n", r"pii\.model is the same for all"),
        ("guard:\n  jailbreak: {threshold: 2}\n", r"yaml:2: guard\.jailbreak\.threshold"),
    ],
)
def test_mistakes_are_told_by_place(tmp_path, text, told):
    path = tmp_path / "radixway.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=told):
        load_config(path)


def test_soft_types_are_reported_and_only_what_has_a_form_is_masked():
    rules = book(pii={"action": "mask"}).rules_for(None, None, None).pii
    assert judge_pii(rules, "m", frozenset(SOFT_TYPES)).action == "report"
    both = judge_pii(rules, "m", EMAIL | {"PERSON", "AGE"})
    assert (both.action, both.edits, both.denied) == ("mask", EMAIL, EMAIL | {"PERSON", "AGE"})
    assert judge_pii(rules, None, frozenset({"OF_A_MODEL_OF_ONES_OWN"})).action == "mask"


@pytest.mark.parametrize("pii", [{"types": ["AGE", "EMAIL_ADDRESS"]}, {"actions": {"AGE": "mask"}}])
def test_a_soft_type_that_is_named_is_masked(pii):
    rules = book(pii={"action": "mask"} | pii).rules_for(None, None, None).pii
    assert judge_pii(rules, "m", frozenset({"AGE"})).masked == {"AGE"}
    assert judge_pii(rules, "m", frozenset({"PERSON"})).action == "report"


def test_whoever_says_what_a_model_may_be_shown_names_everything_else():
    allowing = {"pii_policy": {"allow_by_default": False, "pii_types_allowed": ["PERSON"]}}
    rules = (
        book(classic(model_config={"public": allowing}), pii={"action": "mask"})
        .rules_for(None, None, None)
        .pii
    )
    for model in ("public", None):
        assert judge_pii(rules, model, frozenset({"PERSON", "AGE"})).masked == {"AGE"}
    plugin = {"type": "pii", "configuration": {"pii_types_allowed": ["AGE"]}}
    decision = {
        "name": "d",
        "rules": {"operator": "NOT", "conditions": [{"type": "keyword", "name": "k"}]},
        "plugins": [plugin],
    }
    decision["modelRefs"] = [{"model": "m", "use_reasoning": False}]
    section = {"decisions": [decision], "default_model": "m"}
    rules = book(section, pii={"action": "mask"}).rules_for(None, None, "d").pii
    assert judge_pii(rules, "m", frozenset({"PERSON", "AGE"})).masked == {"PERSON"}


@pytest.mark.parametrize("action", ["block", "redact", "report"])
def test_the_other_actions_are_for_soft_types_as_for_all(action):
    rules = book(pii={"action": action}).rules_for(None, None, None).pii
    assert judge_pii(rules, "m", frozenset({"AGE"})).action == action
