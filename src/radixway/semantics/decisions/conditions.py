"""Conditions over signals, in a logic of three values: true, false, and not known yet.

What is not known yet may not matter: `keyword AND embedding` is false as soon as the keyword is missing. That
is what lets signals be read lazily, cheapest first, until the decision is certain (Kleene's strong logic).
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from radixway.core.config.semantic import SignalCondition
from radixway.semantics.signals.base import SignalSet, Value

Comparison = Literal["==", "!=", "<", "<=", ">", ">="]
Attribute = Literal["matched", "score", "confidence", "value", "entropy"]
_ORDERINGS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class ConditionNode(Protocol):
    """A condition."""

    @property
    def signal_kinds(self) -> frozenset[str]:
        """The kinds of signals that it may need."""

    def evaluate(self, signals: SignalSet) -> bool | None:
        """Return whether it holds; None while `signals` lacks some that matter."""

    def confidence(self, signals: SignalSet) -> float:
        """Return how sure it is, 0 to 1, given that it holds."""


@dataclass(frozen=True, slots=True)
class _SignalCondition:
    kind: str
    name: str

    @property
    def signal_kinds(self) -> frozenset[str]:
        return frozenset((self.kind,))


@dataclass(frozen=True, slots=True)
class SignalMatched(_SignalCondition):
    """Holds if the signal matched."""

    def evaluate(self, signals: SignalSet) -> bool | None:
        if not signals.has_kind(self.kind):
            return None
        signal = signals.find_signal(self.kind, self.name)
        return signal is not None and signal.matched

    def confidence(self, signals: SignalSet) -> float:
        signal = signals.find_signal(self.kind, self.name)
        return 0.0 if signal is None else signal.confidence


@dataclass(frozen=True, slots=True)
class SignalCompared(_SignalCondition):
    """An attribute of a signal against a constant. What was not found is 0, "" and false."""

    attribute: Attribute
    comparison: Comparison
    constant: Value

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
class _ConditionGroup:
    """Conditions of which one that evaluates to `decisive` decides for all."""

    decisive: ClassVar[bool]
    nodes: tuple[ConditionNode, ...]

    @property
    def signal_kinds(self) -> frozenset[str]:
        return frozenset[str]().union(*(node.signal_kinds for node in self.nodes))

    def evaluate(self, signals: SignalSet) -> bool | None:
        truths = [node.evaluate(signals) for node in self.nodes]
        if self.decisive in truths:
            return self.decisive
        return None if None in truths else not self.decisive


class AllOf(_ConditionGroup):
    """Holds if every condition does, or there is none."""

    __slots__ = ()
    decisive = False

    def confidence(self, signals: SignalSet) -> float:
        """Return the mean confidence of the parts."""
        sure = [node.confidence(signals) for node in self.nodes]
        return sum(sure) / len(sure) if sure else 1.0


class AnyOf(_ConditionGroup):
    """Holds if at least one condition does."""

    __slots__ = ()
    decisive = True

    def confidence(self, signals: SignalSet) -> float:
        """Return the highest confidence of the parts that hold."""
        confidences = (node.confidence(signals) for node in self.nodes if node.evaluate(signals))
        return max(confidences, default=0.0)


def build_condition(condition: SignalCondition) -> ConditionNode:
    """Build the node of a `condition` of the configuration."""
    if condition.type is not None:
        return SignalMatched(condition.type, condition.name or "")
    parts = tuple(build_condition(part) for part in condition.conditions)
    if condition.operator == "NOT":
        return NotNode(parts[0])
    return AnyOf(parts) if condition.operator == "OR" else AllOf(parts)


def read_attribute(signals: SignalSet, kind: str, name: str, attribute: Attribute) -> Value:
    """Return the value of a term of an expression, `kind.name.attribute`."""
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


def _compare_values(value: Value, comparison: Comparison, constant: Value) -> bool:
    if comparison == "==":
        return value == constant
    if comparison == "!=":
        return value != constant
    if isinstance(value, str) or isinstance(constant, str):
        return False  # only numbers have an order here
    return _ORDERINGS[comparison](value, constant)
