"""From signals to a verdict: policy rules, then decisions, then keyword → embedding → domain.

Pure and synchronous. A verdict that signals not yet read could change is not given; the kinds that are needed
are told instead, and whoever reads signals asks again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from radixway.config.semantic import FusionSection, ModelRef
from radixway.semantic.conditions import Node
from radixway.semantic.signals.base import Signal, Signals
from radixway.telemetry import Shared

Action = Literal["route", "block", "boost_category", "fallthrough"]


@dataclass(frozen=True, slots=True)
class Rule(Shared):
    """A condition, and what follows from it."""

    name: str
    when: Node
    action: Action
    priority: int = 0
    refs: tuple[ModelRef, ...] = ()
    category: str | None = None
    boost_weight: float = 1.0
    message: str = ""
    plugins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rules:
    """Everything that a verdict follows from; each list by falling priority."""

    policies: tuple[Rule, ...] = ()
    decisions: tuple[Rule, ...] = ()
    strategy: Literal["priority", "confidence"] = "priority"
    chain: tuple[str, ...] = ("keyword", "embedding", "domain")
    """The kinds that name categories, the first one's word before the others'."""
    fusion: FusionSection = field(default_factory=FusionSection)
    threshold: float = 0.6
    """The domain's, under which it is none."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the signals add up to."""

    action: Literal["route", "block"] = "route"
    category: str | None = None
    confidence: float = 0.0
    rule: Rule | None = None
    """The rule that won, if one did."""
    reason: str = "nothing_matched"
    distribution: Mapping[str, float] | None = None
    """By category after boosts, where the domain was read."""
    agreeing: tuple[str, ...] = ()
    """Kinds of signals that name the same category."""


@dataclass(frozen=True, slots=True)
class Missing:
    """No verdict before some of these kinds were read."""

    kinds: frozenset[str]


def judge(rules: Rules, signals: Signals) -> Verdict | Missing:
    """The verdict, or what it still takes.

    Rules that boost are collected on the way; the first that routes or blocks wins; one that falls through
    goes on to what comes after its list.
    """
    boosts: dict[str, float] = {}
    found = _first(rules.policies, signals, boosts)
    if found is None:
        if rules.strategy == "confidence":
            found = _surest(rules.decisions, signals, boosts)
        else:
            found = _first(rules.decisions, signals, boosts)
    if isinstance(found, Missing):
        return found
    if found is not None:
        return _by_rule(found, signals)
    return _by_category(rules, signals, boosts)


def judge_blocks(rules: Rules, signals: Signals) -> Verdict | Missing | None:
    """The first rule that blocks, for requests whose model is given; None where none does."""
    blocking = [rule for rule in (*rules.policies, *rules.decisions) if rule.action == "block"]
    found = _first(blocking, signals, {})
    if found is None or isinstance(found, Missing):
        return found
    return _by_rule(found, signals)


def _first(rules: Sequence[Rule], signals: Signals, boosts: dict[str, float]) -> Rule | Missing | None:
    """The first rule that holds and ends the search; None where none does, or one falls through."""
    for rule in rules:
        truth = rule.when.truth(signals)
        if truth is None:
            return _missing(rule, signals)
        if not truth:
            continue
        if rule.action == "fallthrough":
            return None
        if rule.action != "boost_category":
            return rule
        _boost(rule, boosts)
    return None


def _surest(rules: Sequence[Rule], signals: Signals, boosts: dict[str, float]) -> Rule | Missing | None:
    """Of the rules that hold, the surest; of equals the one with the higher priority."""
    held: list[Rule] = []
    for rule in rules:
        truth = rule.when.truth(signals)
        if truth is None:
            return _missing(rule, signals)
        if truth and rule.action == "boost_category":
            _boost(rule, boosts)
        elif truth:
            held.append(rule)
    best = max(held, key=lambda rule: (rule.when.confidence(signals), rule.priority), default=None)
    return None if best is None or best.action == "fallthrough" else best


def _missing(rule: Rule, signals: Signals) -> Missing:
    return Missing(frozenset(kind for kind in rule.when.kinds if not signals.knows(kind)))


def _boost(rule: Rule, boosts: dict[str, float]) -> None:
    category = rule.category or ""
    boosts[category] = boosts.get(category, 1.0) * rule.boost_weight


def _by_rule(rule: Rule, signals: Signals) -> Verdict:
    said = signals.get("domain")
    domain = None if said is None else said.domain
    read = said.category if said is not None and said.matched else None
    return Verdict(
        action="block" if rule.action == "block" else "route",
        category=rule.category or read,
        confidence=rule.when.confidence(signals),
        rule=rule,
        reason=f"rule:{rule.name}",
        distribution=None if domain is None else domain.distribution,
    )


def _by_category(rules: Rules, signals: Signals, boosts: Mapping[str, float]) -> Verdict | Missing:
    """The published order: the first kind that names a category has it, unless it was less than certain and a
    later one is sure enough to override it.
    """
    fusion = rules.fusion
    chosen: tuple[str, Signal] | None = None
    distribution: Mapping[str, float] | None = None
    heard: dict[str, str] = {}
    for kind in rules.chain:
        if chosen is not None and chosen[1].confidence >= fusion.certain_at:
            break
        if not signals.knows(kind):
            return Missing(frozenset((kind,)))
        if kind == "domain":
            said, distribution = _boosted(signals, boosts, rules.threshold)
        else:
            said = max(_naming(signals, kind), key=lambda signal: signal.confidence, default=None)
        if said is None or said.category is None:
            continue
        heard[kind] = said.category
        if chosen is None or said.confidence >= fusion.override_at > chosen[1].confidence:
            chosen = kind, said
    if chosen is None:
        return Verdict(reason="no_category", distribution=distribution)
    kind, signal = chosen
    agreeing = tuple(each for each, category in heard.items() if category == signal.category)
    overrode = next(iter(heard)) != kind
    return Verdict(
        category=signal.category,
        confidence=signal.confidence,
        reason=f"{kind}_overrides" if overrode else kind,
        distribution=distribution,
        agreeing=agreeing,
    )


def _naming(signals: Signals, kind: str) -> list[Signal]:
    return [signal for signal in signals.of(kind) if signal.matched and signal.category is not None]


def _boosted(
    signals: Signals, boosts: Mapping[str, float], threshold: float
) -> tuple[Signal | None, Mapping[str, float] | None]:
    """The domain after boosts, if it is sure enough, and its distribution."""
    domain = signals.domain
    if domain is None:
        return None, None
    weighted = {name: share * boosts.get(name, 1.0) for name, share in domain.distribution.items()}
    total = sum(weighted.values())
    distribution = {name: share / total for name, share in weighted.items()} if total else weighted
    best = max(distribution, key=distribution.__getitem__)
    confidence = distribution[best]
    if confidence < threshold:
        return None, distribution
    return Signal("domain", "", best, True, confidence, best), distribution
