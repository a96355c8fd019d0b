"""Patterns of the whole conversation: secrets, personal numbers, structured data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from radixway.config.semantic import RegexSignal
from radixway.semantic.signals.base import Signal
from radixway.semantic.signals.keyword import PatternSet
from radixway.semantic.signals.text import normalised

if TYPE_CHECKING:
    from radixway.encoders import Encoding
    from radixway.semantic.question import Question


class RegexDetector:
    """RE2 patterns, searched in every message: what must not pass may stand in an earlier turn."""

    kind = "regex"
    needs_encoding = False

    def __init__(self, rules: Sequence[RegexSignal]) -> None:
        """Raises ConfigError for a bad pattern."""
        self._rules = tuple(rules)
        self._sets = [
            PatternSet(
                [((i, 0), rule.pattern) for i, rule in enumerate(rules) if rule.case_sensitive == sensitive],
                case_sensitive=sensitive,
            )
            for sensitive in (False, True)
        ]

    def read(self, question: Question, encoding: Encoding | None = None) -> Iterator[Signal]:
        """The patterns that match."""
        text = normalised(question.whole or question.text)
        for group in self._sets:
            for rule, _ in group.hits(text):
                yield Signal("regex", self._rules[rule].name, True)
