"""From signals to a verdict: policy rules, then decisions, then keyword → embedding → domain.

Pure and synchronous. A verdict that signals not yet read could change is not given; the kinds that are needed
are told instead, and whoever reads signals asks again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from radixway.core.config.semantic import FusionConfig, Level, ModelRef, TiersConfig
from radixway.core.telemetry import SharedObject
from radixway.semantics.decisions.conditions import ConditionNode
from radixway.semantics.signals.base import SignalSet, SignalValue

Action = Literal["route", "block", "boost_category", "fallthrough"]


@dataclass(frozen=True, slots=True)
class CompiledRule(SharedObject):
    """A condition, and what follows from it."""

    name: str
    when: ConditionNode
    action: Action
    priority: int = 0
    refs: tuple[ModelRef, ...] = ()
    category: str | None = None
    boost_weight: float = 1.0
    message: str = ""
    plugins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CompiledRules:
    """Everything that a verdict follows from; each list by falling priority."""

    policies: tuple[CompiledRule, ...] = ()
    decisions: tuple[CompiledRule, ...] = ()
    strategy: Literal["priority", "confidence"] = "priority"
    chain: tuple[str, ...] = ("keyword", "embedding", "domain")
    """The kinds that name categories, the first one's word before the others'."""
    fusion: FusionConfig = field(default_factory=FusionConfig)
    threshold: float = 0.6
    """The domain's, under which it is none."""
    tiers: TiersConfig | None = None
    """Where difficulty begins; None where nothing depends on it."""


@dataclass(frozen=True, slots=True)
class QuestionDifficulty:
    """How hard a question is, and the scores from which it is harder."""

    level: Level
    score: float
    """The words' `complexity.score`."""
    medium_from: float
    large_from: float

    def explain(self) -> dict[str, Any]:
        """Return the fields for the journal."""
        return {
            "level": self.level,
            "score": round(self.score, 4),
            "medium_from": self.medium_from,
            "large_from": self.large_from,
        }


@dataclass(frozen=True, slots=True)
class DecisionVerdict:
    """The verdict of the signals."""

    action: Literal["route", "block"] = "route"
    category: str | None = None
    confidence: float = 0.0
    rule: CompiledRule | None = None
    reason: str = "nothing_matched"
    distribution: Mapping[str, float] | None = None
    """By category after boosts, where the domain was read."""
    agreeing: tuple[str, ...] = ()
    """Kinds of signals that name the same category."""
    difficulty: QuestionDifficulty | None = None
    """None where nothing depends on it, or it could not be read."""

    @property
    def rule_name(self) -> str | None:
        """The name of the rule that won, if one did."""
        return None if self.rule is None else self.rule.name


@dataclass(frozen=True, slots=True)
class MissingSignals:
    """The kinds that must be read before a verdict."""

    kinds: frozenset[str]


def judge_signals(rules: CompiledRules, signals: SignalSet) -> DecisionVerdict | MissingSignals:
    """Return the verdict, or the kinds of signals that it still takes.

    Rules that boost are collected on the way; the first that routes or blocks wins; one that falls through
    goes on to what comes after its list.
    """
    boosts: dict[str, float] = {}
    found = _first_match(rules.policies, signals, boosts)
    if found is None:
        if rules.strategy == "confidence":
            found = _most_confident(rules.decisions, signals, boosts)
        else:
            found = _first_match(rules.decisions, signals, boosts)
    if isinstance(found, MissingSignals):
        return found
    verdict = (
        _verdict_by_category(rules, signals, boosts) if found is None else _verdict_by_rule(found, signals)
    )
    names_models = found is not None and (found.action == "block" or found.refs)
    if isinstance(verdict, MissingSignals) or rules.tiers is None or names_models:
        return verdict
    if not signals.has_kind("complexity"):
        return MissingSignals(frozenset(("complexity",)))
    return replace(verdict, difficulty=_read_difficulty(rules.tiers, signals))


def _read_difficulty(tiers: TiersConfig, signals: SignalSet) -> QuestionDifficulty | None:
    signal = signals.find_signal("complexity")
    if signal is None:
        return None
    score = float(signal.value)
    return QuestionDifficulty(tiers.level_of(score), score, tiers.medium_from, tiers.large_from)


def judge_blocks(rules: CompiledRules, signals: SignalSet) -> DecisionVerdict | MissingSignals | None:
    """Return the first rule that blocks, for requests whose model is given; None where none does."""
    blocking = [rule for rule in (*rules.policies, *rules.decisions) if rule.action == "block"]
    found = _first_match(blocking, signals, {})
    if found is None or isinstance(found, MissingSignals):
        return found
    return _verdict_by_rule(found, signals)


def _first_match(
    rules: Sequence[CompiledRule], signals: SignalSet, boosts: dict[str, float]
) -> CompiledRule | MissingSignals | None:
    """Return the first matching rule that ends the search, or None."""
    for rule in rules:
        truth = rule.when.evaluate(signals)
        if truth is None:
            return _missing_signals(rule, signals)
        if not truth:
            continue
        if rule.action == "fallthrough":
            return None
        if rule.action != "boost_category":
            return rule
        _add_boost(rule, boosts)
    return None


def _most_confident(
    rules: Sequence[CompiledRule], signals: SignalSet, boosts: dict[str, float]
) -> CompiledRule | MissingSignals | None:
    """Return the most confident matching rule, of equals the one with higher priority."""
    matching: list[CompiledRule] = []
    for rule in rules:
        truth = rule.when.evaluate(signals)
        if truth is None:
            return _missing_signals(rule, signals)
        if truth and rule.action == "boost_category":
            _add_boost(rule, boosts)
        elif truth:
            matching.append(rule)
    best = max(matching, key=lambda rule: (rule.when.confidence(signals), rule.priority), default=None)
    return None if best is None or best.action == "fallthrough" else best


def _missing_signals(rule: CompiledRule, signals: SignalSet) -> MissingSignals:
    return MissingSignals(frozenset(kind for kind in rule.when.signal_kinds if not signals.has_kind(kind)))


def _add_boost(rule: CompiledRule, boosts: dict[str, float]) -> None:
    category = rule.category or ""
    boosts[category] = boosts.get(category, 1.0) * rule.boost_weight


def _verdict_by_rule(rule: CompiledRule, signals: SignalSet) -> DecisionVerdict:
    signal = signals.find_signal("domain")
    domain = None if signal is None else signal.domain
    read = signal.category if signal is not None and signal.matched else None
    return DecisionVerdict(
        action="block" if rule.action == "block" else "route",
        category=rule.category or read,
        confidence=rule.when.confidence(signals),
        rule=rule,
        reason=f"rule:{rule.name}",
        distribution=None if domain is None else domain.distribution,
    )


def _verdict_by_category(
    rules: CompiledRules, signals: SignalSet, boosts: Mapping[str, float]
) -> DecisionVerdict | MissingSignals:
    """Follow the published order: the first kind that names a category has it, unless it was uncertain and a
    later kind is confident enough to override it.
    """
    fusion = rules.fusion
    chosen: tuple[str, SignalValue] | None = None
    distribution: Mapping[str, float] | None = None
    categories: dict[str, str] = {}
    for kind in rules.chain:
        if chosen is not None and chosen[1].confidence >= fusion.certain_at:
            break
        if not signals.has_kind(kind):
            return MissingSignals(frozenset((kind,)))
        if kind == "domain":
            found, distribution = _boost_domain(signals, boosts, rules.threshold)
        else:
            found = max(
                _signals_naming_category(signals, kind), key=lambda signal: signal.confidence, default=None
            )
        if found is None or found.category is None:
            continue
        categories[kind] = found.category
        if chosen is None or found.confidence >= fusion.override_at > chosen[1].confidence:
            chosen = kind, found
    if chosen is None:
        return DecisionVerdict(reason="no_category", distribution=distribution)
    kind, signal = chosen
    agreeing = tuple(each for each, category in categories.items() if category == signal.category)
    overrode = next(iter(categories)) != kind
    return DecisionVerdict(
        category=signal.category,
        confidence=signal.confidence,
        reason=f"{kind}_overrides" if overrode else kind,
        distribution=distribution,
        agreeing=agreeing,
    )


def _signals_naming_category(signals: SignalSet, kind: str) -> list[SignalValue]:
    return [signal for signal in signals.signals_of(kind) if signal.matched and signal.category is not None]


def _boost_domain(
    signals: SignalSet, boosts: Mapping[str, float], threshold: float
) -> tuple[SignalValue | None, Mapping[str, float] | None]:
    """Return the boosted domain if it is sure enough, and its distribution."""
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
    return SignalValue("domain", "", best, True, confidence, best), distribution
