"""Conditions over signals, in a logic of three values: true, false, and not known yet.

What is not known yet may not matter: `keyword AND embedding` is false as soon as the keyword is missing. That
is what lets signals be read lazily, cheapest first, until the decision is certain (Kleene's strong logic).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from radixway.core.config.semantic import SignalCondition
from radixway.semantics.signals.base import SignalSet, Value

Comparison = Literal["==", "!=", "<", "<=", ">", ">="]
Attribute = Literal["matched", "score", "confidence", "value", "entropy"]


class ConditionNode(Protocol):
    """A condition."""

    @property
    def signal_kinds(self) -> frozenset[str]:
        """The kinds of signals that it may need."""
        ...

    def evaluate(self, signals: SignalSet) -> bool | None:
        """Whether it holds; None while signals that matter were not read."""
        ...

    def confidence(self, signals: SignalSet) -> float:
        """How sure it is, given that it holds."""
        ...


@dataclass(frozen=True, slots=True)
class SignalMatched:
    """A signal is there."""

    kind: str
    name: str

    @property
    def signal_kinds(self) -> frozenset[str]:
        return frozenset((self.kind,))

    def evaluate(self, signals: SignalSet) -> bool | None:
        if not signals.has_kind(self.kind):
            return None
        signal = signals.find_signal(self.kind, self.name)
        return signal is not None and signal.matched

    def confidence(self, signals: SignalSet) -> float:
        signal = signals.find_signal(self.kind, self.name)
        return 0.0 if signal is None else signal.confidence


@dataclass(frozen=True, slots=True)
class SignalCompared:
    """An attribute of a signal against a constant. What was not found is 0, "" and false."""

    kind: str
    name: str
    attribute: Attribute
    comparison: Comparison
    constant: Value

    @property
    def signal_kinds(self) -> frozenset[str]:
        return frozenset((self.kind,))

    def evaluate(self, signals: SignalSet) -> bool | None:
        if not signals.has_kind(self.kind):
            return None
        value = read_attribute(signals, self.kind, self.name, self.attribute)
        return _compare_values(value, self.comparison, self.constant)

    def confidence(self, signals: SignalSet) -> float:
        signal = signals.find_signal(self.kind, self.name)
        return 1.0 if signal is None else signal.confidence


@dataclass(frozen=True, slots=True)
class NotNode:
    """The other way round."""

    node: ConditionNode

    @property
    def signal_kinds(self) -> frozenset[str]:
        return self.node.signal_kinds

    def evaluate(self, signals: SignalSet) -> bool | None:
        truth = self.node.evaluate(signals)
        return None if truth is None else not truth

    def confidence(self, signals: SignalSet) -> float:
        return 1.0


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every one; of none at all it holds."""

    nodes: tuple[ConditionNode, ...]

    @property
    def signal_kinds(self) -> frozenset[str]:
        return _union_kinds(self.nodes)

    def evaluate(self, signals: SignalSet) -> bool | None:
        truths = [node.evaluate(signals) for node in self.nodes]
        if False in truths:
            return False
        return None if None in truths else True

    def confidence(self, signals: SignalSet) -> float:
        """The mean of its parts."""
        sure = [node.confidence(signals) for node in self.nodes]
        return sum(sure) / len(sure) if sure else 1.0


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one."""

    nodes: tuple[ConditionNode, ...]

    @property
    def signal_kinds(self) -> frozenset[str]:
        return _union_kinds(self.nodes)

    def evaluate(self, signals: SignalSet) -> bool | None:
        truths = [node.evaluate(signals) for node in self.nodes]
        if True in truths:
            return True
        return None if None in truths else False

    def confidence(self, signals: SignalSet) -> float:
        """The surest of the parts that hold."""
        held = (node.confidence(signals) for node in self.nodes if node.evaluate(signals))
        return max(held, default=0.0)


def build_condition(condition: SignalCondition) -> ConditionNode:
    """A condition as the configuration writes it."""
    if condition.type is not None:
        return SignalMatched(condition.type, condition.name or "")
    parts = tuple(build_condition(each) for each in condition.conditions)
    if condition.operator == "NOT":
        return NotNode(parts[0])
    return AnyOf(parts) if condition.operator == "OR" else AllOf(parts)


def read_attribute(signals: SignalSet, kind: str, name: str, attribute: Attribute) -> Value:
    """What an expression's term stands for."""
    signal = signals.find_signal(kind, name)
    if attribute == "matched":
        return signal is not None and signal.matched
    if attribute == "entropy":
        return 0.0 if signal is None or signal.domain is None else signal.domain.entropy
    if signal is None:
        return "" if attribute == "value" else 0.0
    if attribute == "confidence":
        return signal.confidence
    if attribute == "score" and isinstance(signal.value, str):
        return signal.confidence
    return signal.value


def _union_kinds(nodes: Iterable[ConditionNode]) -> frozenset[str]:
    return frozenset[str]().union(*(node.signal_kinds for node in nodes))


def _compare_values(value: Value, comparison: Comparison, constant: Value) -> bool:
    if comparison == "==":
        return value == constant
    if comparison == "!=":
        return value != constant
    if isinstance(value, str) or isinstance(constant, str):
        return False  # only numbers have an order here
    if comparison == "<":
        return value < constant
    if comparison == "<=":
        return value <= constant
    return value > constant if comparison == ">" else value >= constant
