"""Headers of the request as signals: a product's name, a plan, an experiment."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import re2

from radixway.core.config import ConfigError
from radixway.core.config.semantic import HeaderSignalConfig
from radixway.semantics.signals.base import SignalValue

if TYPE_CHECKING:
    from radixway.semantics.encoders import TextEncoding
    from radixway.semantics.signals.question import RequestQuestion


class HeaderDetector:
    """Reads clients' headers. They must not grant rights."""

    kind = "header"
    needs_encoding = False

    def __init__(self, rules: Sequence[HeaderSignalConfig]) -> None:
        """Raises ConfigError for a bad pattern."""
        self._rules = [(rule, _compile_header_rule(rule)) for rule in rules]

    def detect_signals(
        self, question: RequestQuestion, encoding: TextEncoding | None = None
    ) -> Iterator[SignalValue]:
        """Yield the rules that match, each with the header's value."""
        for rule, pattern in self._rules:
            value = question.headers.get(rule.header.lower())
            if value is None:
                continue
            if rule.values and value not in rule.values:
                continue
            if pattern is None or pattern.fullmatch(value):
                yield SignalValue("header", rule.name, value[:256])


def _compile_header_rule(rule: HeaderSignalConfig) -> Any:
    if rule.pattern is None:
        return None
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(rule.pattern, options)
    except re2.error:
        raise ConfigError(f"semantic: the pattern {rule.pattern!r} is not one of RE2's") from None
