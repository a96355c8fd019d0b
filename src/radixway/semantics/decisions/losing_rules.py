"""Rules and signals that matched a request and did not decide it, each with the reason."""

from collections.abc import Iterator
from typing import Any

from radixway.semantics.decisions.verdict import CompiledRule, CompiledRules, DecisionVerdict
from radixway.semantics.signals.base import SignalSet


def explain_losing_rules(
    rules: CompiledRules, signals: SignalSet, verdict: DecisionVerdict
) -> list[dict[str, Any]]:
    """Return what of `rules` matched `signals` without deciding, as `rule`, `why` and the figures compared.

    `why` is one of `lower_priority`, `behind_policy`, `less_confident`, `falls_through`, `behind_fallthrough`
    (rules), `rule_decided`, `asked_later`, `less_certain` (signals that name another category).
    """
    return [*_losing_rules(rules, signals, verdict), *_losing_signals(rules, signals, verdict)]


def _losing_rules(
    rules: CompiledRules, signals: SignalSet, verdict: DecisionVerdict
) -> Iterator[dict[str, Any]]:
    winner = verdict.rule
    for listed in (rules.policies, rules.decisions):
        passed: CompiledRule | None = None
        for rule in listed:
            if rule is winner or rule.action == "boost_category" or rule.when.evaluate(signals) is not True:
                continue
            if rule.action == "fallthrough":
                passed = passed or rule
            yield {"rule": rule.name} | _why_rule_lost(rules, signals, rule, winner, passed)


def _why_rule_lost(
    rules: CompiledRules,
    signals: SignalSet,
    rule: CompiledRule,
    winner: CompiledRule | None,
    passed: CompiledRule | None,
) -> dict[str, Any]:
    """Return why `rule` lost to `winner`; `passed`: the rule of its list that falls through, if one did."""
    if passed is rule:
        return {"why": "falls_through"}
    if winner is None:
        return {"why": "behind_fallthrough", "winner": "" if passed is None else passed.name}
    if winner in rules.policies and rule in rules.decisions:
        return {"why": "behind_policy", "winner": winner.name}
    if rule in rules.policies and winner in rules.decisions:
        return {"why": "behind_fallthrough", "winner": "" if passed is None else passed.name}
    if rules.strategy == "confidence" and rule in rules.decisions:
        own, other = rule.when.confidence(signals), winner.when.confidence(signals)
        if own != other:
            figures = {"value": round(own, 4), "winner_value": round(other, 4)}
            return {"why": "less_confident", "winner": winner.name} | figures
    figures = {"value": rule.priority, "winner_value": winner.priority}
    return {"why": "lower_priority", "winner": winner.name} | figures


def _losing_signals(
    rules: CompiledRules, signals: SignalSet, verdict: DecisionVerdict
) -> Iterator[dict[str, Any]]:
    """Yield the signals that name a category other than that of `verdict`."""
    found = [
        (kind, signal)
        for kind in rules.chain
        for signal in signals.signals_of(kind)
        if signal.matched and signal.category is not None
    ]
    best = next((pair for pair in found if pair[1].category == verdict.category), None)
    for kind, signal in found:
        if signal.category == verdict.category:
            continue
        entry: dict[str, Any] = {"rule": f"{kind}:{signal.category}"}
        if verdict.rule is not None:
            yield entry | {"why": "rule_decided", "winner": verdict.rule.name}
        elif best is not None:
            figures = {"value": round(signal.confidence, 4), "winner_value": round(best[1].confidence, 4)}
            is_later = rules.chain.index(kind) > rules.chain.index(best[0])
            why = "asked_later" if is_later else "less_certain"
            yield entry | {"why": why, "winner": f"{best[0]}:{best[1].category}"} | figures
