"""From signals to a verdict, without a model: rules, expressions, the published order, entropy."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from radixway.core.config import ConfigError
from radixway.core.config.semantic import FusionConfig, ModelRef, SignalCondition
from radixway.semantics.decisions.conditions import AllOf, AnyOf, NotNode, SignalMatched, build_condition
from radixway.semantics.decisions.expression_parser import parse_expression
from radixway.semantics.decisions.reasoning_mode import decide_reasoning
from radixway.semantics.decisions.verdict import (
    CompiledRule,
    CompiledRules,
    DecisionVerdict,
    MissingSignals,
    judge_blocks,
    judge_signals,
)
from radixway.semantics.signals.base import DomainValue, SignalSet, SignalValue

REFS = (ModelRef(model="m"),)


def keyword(name, confidence=1.0, category=None):
    return SignalValue("keyword", name, True, True, confidence, category)


def domain(**shares):
    best = max(shares, key=shares.get)
    found = DomainValue(best, shares[best], shares, 0.0)
    return SignalValue("domain", "", best, shares[best] >= 0.6, shares[best], best, found)


def known(**kinds) -> SignalSet:
    signals = SignalSet()
    for kind, found in kinds.items():
        signals.add_signals(kind, found)
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
        embedding=[SignalValue("embedding", "reasoning", 0.8, True, 0.8)],
        language=[],
    )
    assert parse_expression(text).evaluate(signals) is truth


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
        parse_expression(text)


@given(st.text(max_size=60))
def test_any_text_is_an_expression_or_a_configuration_error(text):
    with suppress(ConfigError):
        parse_expression(text)


nodes = st.recursive(
    st.builds(SignalMatched, st.sampled_from(["keyword", "embedding", "domain"]), st.sampled_from("ab")),
    lambda inner: st.one_of(
        st.builds(NotNode, inner),
        st.builds(lambda parts: AllOf(tuple(parts)), st.lists(inner, max_size=3)),
        st.builds(lambda parts: AnyOf(tuple(parts)), st.lists(inner, max_size=3)),
    ),
    max_leaves=8,
)


@given(nodes, st.sets(st.sampled_from(["keyword", "embedding"])), st.sets(st.sampled_from("ab")))
def test_what_is_certain_stays_so_whatever_is_read_later(node, kinds, names):
    """The promise that lazy reading stands on."""
    some = known(**{kind: [SignalValue(kind, name, True) for name in names] for kind in kinds})
    truth = node.evaluate(some)
    for later in (
        [],
        [SignalValue("x", "a", True)],
        [SignalValue("x", "a", True), SignalValue("x", "b", True)],
    ):
        everything = known(**{kind: list(some.signals_of(kind)) for kind in kinds})
        for kind in {"keyword", "embedding", "domain"} - kinds:
            everything.add_signals(kind, later)
        assert node.evaluate(everything) is not None
        assert truth is None or node.evaluate(everything) is truth


def test_a_tree_of_conditions_is_that_tree():
    tree = SignalCondition.model_validate(
        {
            "operator": "and",
            "conditions": [
                {"type": "keyword", "name": "a"},
                {"operator": "NOT", "conditions": [{"type": "language", "name": "zh"}]},
            ],
        }
    )
    assert build_condition(tree) == AllOf(
        (SignalMatched("keyword", "a"), NotNode(SignalMatched("language", "zh")))
    )
    assert build_condition(SignalCondition()).evaluate(SignalSet()) is True


def test_a_keyword_that_is_certain_needs_no_encoder():
    rules = CompiledRules(chain=("keyword", "embedding", "domain"))
    verdict = judge_signals(rules, known(keyword=[keyword("math", 0.8, "math")]))
    assert isinstance(verdict, DecisionVerdict) and verdict.category == "math" and verdict.reason == "keyword"


def test_one_that_is_less_than_certain_holds_unless_a_later_one_is_sure():
    rules = CompiledRules(chain=("keyword", "domain"), fusion=FusionConfig(certain_at=0.8, override_at=0.95))
    said = {"keyword": [keyword("math", 0.67, "math")]}
    assert judge_signals(rules, known(**said)) == MissingSignals(frozenset({"domain"}))
    kept = judge_signals(rules, known(**said, domain=[domain(law=0.9, math=0.1)]))
    assert kept.category == "math"
    lost = judge_signals(rules, known(**said, domain=[domain(law=0.97, math=0.03)]))
    assert lost.category == "law" and lost.reason == "domain_overrides"
    agreed = judge_signals(rules, known(**said, domain=[domain(math=0.9, law=0.1)]))
    assert agreed.agreeing == ("keyword", "domain")


def test_a_domain_below_the_threshold_is_none_and_a_boost_may_lift_it():
    signals = known(keyword=[keyword("steps")], domain=[domain(math=0.55, law=0.45)])
    assert judge_signals(CompiledRules(chain=("domain",)), signals).category is None
    boost = CompiledRule(
        "b", SignalMatched("keyword", "steps"), "boost_category", 100, category="math", boost_weight=2
    )
    verdict = judge_signals(CompiledRules(policies=(boost,), chain=("domain",)), signals)
    assert verdict.category == "math" and verdict.confidence == pytest.approx(1.1 / 1.55)


def test_the_first_rule_that_holds_wins_and_one_that_falls_through_ends_its_list():
    through = CompiledRule("t", SignalMatched("keyword", "a"), "fallthrough", 200)
    never = CompiledRule("n", SignalMatched("keyword", "a"), "route", 100, refs=REFS)
    decision = CompiledRule("d", SignalMatched("keyword", "a"), "route", 0, refs=REFS)
    signals = known(keyword=[keyword("a")])
    assert (
        judge_signals(CompiledRules(policies=(through, never), decisions=(decision,)), signals).rule
        is decision
    )
    assert (
        judge_signals(CompiledRules(policies=(never, through), decisions=(decision,)), signals).rule is never
    )


def test_by_confidence_the_surest_decision_wins_over_the_first():
    first = CompiledRule("first", SignalMatched("keyword", "a"), "route", 100, refs=REFS)
    surest = CompiledRule("surest", SignalMatched("keyword", "b"), "route", 1, refs=REFS)
    signals = known(keyword=[keyword("a", 0.6), keyword("b", 0.9)])
    assert (
        judge_signals(CompiledRules(decisions=(first, surest), strategy="confidence"), signals).rule is surest
    )
    assert judge_signals(CompiledRules(decisions=(first, surest)), signals).rule is first


def test_for_an_explicit_model_only_rules_that_block_are_judged():
    route = CompiledRule("r", SignalMatched("keyword", "a"), "route", 300, refs=REFS)
    block = CompiledRule("b", SignalMatched("regex", "ssn"), "block", 200)
    rules = CompiledRules(policies=(route, block))
    assert judge_blocks(rules, known()) == MissingSignals(frozenset({"regex"}))
    assert judge_blocks(rules, known(regex=[])) is None
    assert judge_blocks(rules, known(regex=[SignalValue("regex", "ssn", True)])).rule is block


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
