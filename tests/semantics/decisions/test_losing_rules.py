"""Why rules and signals that matched did not decide."""

from radixway.semantics.decisions.conditions import SignalMatched
from radixway.semantics.decisions.losing_rules import explain_losing_rules
from radixway.semantics.decisions.verdict import CompiledRule, CompiledRules, judge_signals
from semantics.decisions.test_verdict import REFS, domain, keyword, known


def rule(name, priority=0, action="route", on="k"):
    return CompiledRule(name, SignalMatched("keyword", on), action, priority, REFS)


def lost(rules, signals):
    return explain_losing_rules(rules, signals, judge_signals(rules, signals))


def test_a_lower_priority_is_said_with_both():
    rules = CompiledRules(decisions=(rule("first", 50), rule("second", 10), rule("other", 5, on="nothing")))
    assert lost(rules, known(keyword=[keyword("k")])) == [
        {"rule": "second", "why": "lower_priority", "winner": "first", "value": 10, "winner_value": 50}
    ]


def test_a_policy_goes_before_decisions():
    rules = CompiledRules(policies=(rule("policy"),), decisions=(rule("decision", 90),))
    assert lost(rules, known(keyword=[keyword("k")])) == [
        {"rule": "decision", "why": "behind_policy", "winner": "policy"}
    ]


def test_less_confidence_is_said_with_both():
    rules = CompiledRules(decisions=(rule("sure", on="a"), rule("unsure", on="b")), strategy="confidence")
    signals = known(keyword=[keyword("a", 0.9), keyword("b", 0.4)])
    assert lost(rules, signals) == [
        {"rule": "unsure", "why": "less_confident", "winner": "sure", "value": 0.4, "winner_value": 0.9}
    ]


def test_a_rule_that_falls_through_and_what_is_behind_it():
    rules = CompiledRules(decisions=(rule("passes", 9, "fallthrough"), rule("behind", 1)), chain=("keyword",))
    assert lost(rules, known(keyword=[keyword("k")])) == [
        {"rule": "passes", "why": "falls_through"},
        {"rule": "behind", "why": "behind_fallthrough", "winner": "passes"},
    ]


def test_a_category_that_another_signal_outdoes():
    signals = known(keyword=[keyword("k", 1.0, "math")], domain=[domain(law=0.7, math=0.3)], embedding=[])
    assert lost(CompiledRules(), signals) == [
        {
            "rule": "domain:law",
            "why": "asked_later",
            "winner": "keyword:math",
            "value": 0.7,
            "winner_value": 1.0,
        }
    ]
    rules = CompiledRules(decisions=(rule("decides"),))
    assert {"rule": "keyword:math", "why": "rule_decided", "winner": "decides"} in lost(rules, signals)


def test_nothing_is_said_where_nothing_lost():
    assert lost(CompiledRules(decisions=(rule("only"),)), known(keyword=[keyword("k")])) == []
