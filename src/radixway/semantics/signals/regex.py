"""Patterns of the whole conversation: secrets, personal numbers, structured data."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from radixway.core.config.semantic import RegexSignalConfig
from radixway.semantics.signals.base import SignalValue
from radixway.semantics.signals.keyword import KeywordPatterns
from radixway.semantics.signals.text_normalization import normalize_text

if TYPE_CHECKING:
    from radixway.semantics.encoders import TextEncoding
    from radixway.semantics.signals.question import RequestQuestion


class RegexDetector:
    """RE2 patterns, searched in every message: what must not pass may stand in an earlier turn."""

    kind = "regex"
    needs_encoding = False

    def __init__(self, rules: Sequence[RegexSignalConfig]) -> None:
        """Raises ConfigError for a bad pattern."""
        self._rules = tuple(rules)
        self._sets = [
            KeywordPatterns(
                [((i, 0), rule.pattern) for i, rule in enumerate(rules) if rule.case_sensitive == sensitive],
                case_sensitive=sensitive,
            )
            for sensitive in (False, True)
        ]

    def detect_signals(
        self, question: RequestQuestion, encoding: TextEncoding | None = None
    ) -> Iterator[SignalValue]:
        """The patterns that match."""
        text = normalize_text(question.whole or question.text)
        for group in self._sets:
            for rule, _ in group.find_hits(text):
                yield SignalValue("regex", self._rules[rule].name, True)
