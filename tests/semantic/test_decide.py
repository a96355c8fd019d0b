"""From signals to a verdict, without a model: rules, expressions, the published order, entropy."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.config import ConfigError
from radixway.config.semantic import Condition, FusionSection, ModelRef
from radixway.semantic.conditions import All, Any, Matched, Not, from_tree
from radixway.semantic.decide import Missing, Rule, Rules, Verdict, judge, judge_blocks
from radixway.semantic.expression import parse
from radixway.semantic.reasoning import decide_reasoning
from radixway.semantic.signals.base import Domain, Signal, Signals

REFS = (ModelRef(model="m"),)


def keyword(name, confidence=1.0, category=None):
    return Signal("keyword", name, True, True, confidence, category)


def domain(**shares):
    best = max(shares, key=shares.get)
    found = Domain(best, shares[best], shares, 0.0)
    return Signal("domain", "", best, shares[best] >= 0.6, shares[best], best, found)


def known(**kinds) -> Signals:
    signals = Signals()
    for kind, found in kinds.items():
        signals.add(kind, found)
    return signals


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("keyword.k8s.matched", True),
        ("keyword.kubernetes-infra.matched", False),
        ("!keyword.k8s.matched || bert.confidence > 0.7", True),
        ("keyword.k8s.matched && bert.confidence > .7", True),
        ("keyword.k8s.matched && bert.confidence > 0.95", False),
        ("bert.category == 'computer science'", True),
        ('bert.category.value != "math"', True),
        ("similarity.reasoning.score >= 0.75", True),
        ("similarity.unknown.score > 0", False),
        ("keyword.'two words'.matched == true", True),
        ("(true || false) && !(false)", True),
        ("language.code == 'zh'", False),
    ],
)
def test_expressions(text, truth):
    signals = known(
        keyword=[keyword("k8s"), keyword("two words")],
        domain=[domain(**{"computer science": 0.9, "math": 0.1})],
        embedding=[Signal("embedding", "reasoning", 0.8, True, 0.8)],
        language=[],
    )
    assert parse(text).truth(signals) is truth


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("keyword.k8s.matched &&", "character 23"),
        ("keyword.k8s", "has no 'k8s'"),
        ("weather.x.matched", "no kind of signal 'weather'"),
        ("(keyword.a.matched", r"a \) is missing"),
        ("keyword.a.matched keyword.b.matched", "an operator"),
        ("bert.confidence", "compare it"),
        ("bert.confidence > ", "a number"),
        ("keyword.a.matched ; true", "no part of an expression"),
        ("__import__('os').x", "no kind of signal"),
        ("!" * 100 + "true", "nested more than 64"),
        ("(" * 100 + "true" + ")" * 100, "nested more than 64"),
    ],
)
def test_what_is_no_expression_is_told_in_words(text, said):
    with pytest.raises(ConfigError, match=said):
        parse(text)


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_a_configuration_error(text):
    with suppress(ConfigError):
        parse(text)


nodes = st.recursive(
    st.builds(Matched, st.sampled_from(["keyword", "embedding", "domain"]), st.sampled_from("ab")),
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(lambda parts: All(tuple(parts)), st.lists(inner, max_size=3)),
        st.builds(lambda parts: Any(tuple(parts)), st.lists(inner, max_size=3)),
    ),
    max_leaves=8,
)


@given(nodes, st.sets(st.sampled_from(["keyword", "embedding"])), st.sets(st.sampled_from("ab")))
def test_what_is_certain_stays_so_whatever_is_read_later(node, kinds, names):
    """The promise that lazy reading stands on."""
    some = known(**{kind: [Signal(kind, name, True) for name in names] for kind in kinds})
    truth = node.truth(some)
    for later in ([], [Signal("x", "a", True)], [Signal("x", "a", True), Signal("x", "b", True)]):
        everything = known(**{kind: list(some.of(kind)) for kind in kinds})
        for kind in {"keyword", "embedding", "domain"} - kinds:
            everything.add(kind, later)
        assert node.truth(everything) is not None
        assert truth is None or node.truth(everything) is truth


def test_a_tree_of_conditions_is_that_tree():
    tree = Condition.model_validate(
        {
            "operator": "and",
            "conditions": [
                {"type": "keyword", "name": "a"},
                {"operator": "NOT", "conditions": [{"type": "language", "name": "zh"}]},
            ],
        }
    )
    assert from_tree(tree) == All((Matched("keyword", "a"), Not(Matched("language", "zh"))))
    assert from_tree(Condition()).truth(Signals()) is True


def test_a_keyword_that_is_certain_needs_no_encoder():
    rules = Rules(chain=("keyword", "embedding", "domain"))
    verdict = judge(rules, known(keyword=[keyword("math", 0.8, "math")]))
    assert isinstance(verdict, Verdict) and verdict.category == "math" and verdict.reason == "keyword"


def test_one_that_is_less_than_certain_holds_unless_a_later_one_is_sure():
    rules = Rules(chain=("keyword", "domain"), fusion=FusionSection(certain_at=0.8, override_at=0.95))
    said = {"keyword": [keyword("math", 0.67, "math")]}
    assert judge(rules, known(**said)) == Missing(frozenset({"domain"}))
    kept = judge(rules, known(**said, domain=[domain(law=0.9, math=0.1)]))
    assert kept.category == "math"
    lost = judge(rules, known(**said, domain=[domain(law=0.97, math=0.03)]))
    assert lost.category == "law" and lost.reason == "domain_overrides"
    agreed = judge(rules, known(**said, domain=[domain(math=0.9, law=0.1)]))
    assert agreed.agreeing == ("keyword", "domain")


def test_a_domain_below_the_threshold_is_none_and_a_boost_may_lift_it():
    signals = known(keyword=[keyword("steps")], domain=[domain(math=0.55, law=0.45)])
    assert judge(Rules(chain=("domain",)), signals).category is None
    boost = Rule("b", Matched("keyword", "steps"), "boost_category", 100, category="math", boost_weight=2)
    verdict = judge(Rules(policies=(boost,), chain=("domain",)), signals)
    assert verdict.category == "math" and verdict.confidence == pytest.approx(1.1 / 1.55)


def test_the_first_rule_that_holds_wins_and_one_that_falls_through_ends_its_list():
    through = Rule("t", Matched("keyword", "a"), "fallthrough", 200)
    never = Rule("n", Matched("keyword", "a"), "route", 100, refs=REFS)
    decision = Rule("d", Matched("keyword", "a"), "route", 0, refs=REFS)
    signals = known(keyword=[keyword("a")])
    assert judge(Rules(policies=(through, never), decisions=(decision,)), signals).rule is decision
    assert judge(Rules(policies=(never, through), decisions=(decision,)), signals).rule is never


def test_by_confidence_the_surest_decision_wins_over_the_first():
    first = Rule("first", Matched("keyword", "a"), "route", 100, refs=REFS)
    surest = Rule("surest", Matched("keyword", "b"), "route", 1, refs=REFS)
    signals = known(keyword=[keyword("a", 0.6), keyword("b", 0.9)])
    assert judge(Rules(decisions=(first, surest), strategy="confidence"), signals).rule is surest
    assert judge(Rules(decisions=(first, surest)), signals).rule is first


def test_for_an_explicit_model_only_rules_that_block_are_judged():
    route = Rule("r", Matched("keyword", "a"), "route", 300, refs=REFS)
    block = Rule("b", Matched("regex", "ssn"), "block", 200)
    rules = Rules(policies=(route, block))
    assert judge_blocks(rules, known()) == Missing(frozenset({"regex"}))
    assert judge_blocks(rules, known(regex=[])) is None
    assert judge_blocks(rules, known(regex=[Signal("regex", "ssn", True)])).rule is block


SPREAD = dict.fromkeys(map(str, range(14)), 1 / 14)


@pytest.mark.parametrize(
    ("distribution", "on", "reason"),
    [
        (SPREAD, True, "very_high_uncertainty_conservative_default"),
        (
            {"math": 0.50, "law": 0.35, "a": 0.15 / 2, "b": 0.15 / 2},
            True,
            "high_uncertainty_weighted_decision",
        ),
        ({"law": 0.7, "math": 0.2, "a": 0.05, "b": 0.05}, False, "high_uncertainty_weighted_decision"),
        (
            {"math": 0.8, "law": 0.15, "a": 0.03, "b": 0.02},
            True,
            "medium_uncertainty_top_category_above_threshold",
        ),
        ({"law": 0.92, "math": 0.06, "a": 0.01, "b": 0.01}, False, "low_uncertainty_trust_classification"),
        (
            {"math": 0.98, "law": 0.01, "a": 0.005, "b": 0.005},
            True,
            "very_low_uncertainty_trust_classification",
        ),
        ({"poetry": 0.99, "math": 0.01}, False, "category_not_in_reasoning_map"),
        (None, True, "fallback_traditional_classification"),
    ],
)
def test_the_bands_of_entropy_give_the_published_reasons(distribution, on, reason):
    best = max(distribution, key=distribution.get) if distribution else "math"
    chosen = best in ("math",)
    decision = decide_reasoning(
        distribution, {"math": True, "law": False}, chosen, None if best == "poetry" else best
    )
    assert (decision.on, decision.reason) == (on, reason)


def test_without_any_signal_the_chosen_models_word_counts():
    assert decide_reasoning(None, {}, False, None) == (False, 0.5, "no_classification_data")


def test_the_chosen_models_flag_counts_and_not_the_best_ones():
    sure = {"math": 0.98, "law": 0.02}
    assert decide_reasoning(sure, {"math": True}, False, "math").on is False
