"""Mistakes in a section that only compiling finds, each with its place: expressions and patterns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from radixway.config import ConfigError
from radixway.config.semantic import SemanticConfig, file_mistakes_at, parse_semantic
from radixway.config.yaml_file import Place
from radixway.semantic.expression import parse_expression


def parse_section(text: str, path: Path) -> SemanticConfig:
    """The section in the text of a file. Raises FileMistakes: every mistake by its line, also those that only
    compiling finds.
    """
    section = parse_semantic(text, path)
    mistakes = file_mistakes_at(path, text, find_compile_errors(section))
    if mistakes is not None:
        raise mistakes
    return section


def find_compile_errors(section: SemanticConfig) -> Iterator[tuple[Place, str]]:
    """Patterns are looked at where RE2 is installed, expressions always."""
    for index, policy in enumerate(section.policy_rules):
        said = _compile_error(parse_expression, policy.condition)
        if said is not None:
            yield ("policy_rules", index, "condition"), said
    try:
        from radixway.semantic.signals.keyword import KeywordDetector
        from radixway.semantic.signals.regex import RegexDetector
    except ImportError:
        return
    patterns: list[tuple[Place, Any]] = [
        (("regex_rules",), section.regex_rules),
        (("signals", "regexes"), section.signals.regexes),
    ]
    for at, rules in patterns:
        for index, rule in enumerate(rules):
            if said := _compile_error(RegexDetector, [rule]):
                yield (*at, index, "pattern"), said
    keywords: list[tuple[Place, Any]] = [
        (("keyword_rules",), section.keyword_rules),
        (("signals", "keywords"), section.signals.keywords),
    ]
    for at, rules in keywords:
        for index, rule in enumerate(rules):
            if said := _compile_error(KeywordDetector, [rule]):
                yield (*at, index, "keywords"), said


def _compile_error(compile_it: Callable[[Any], object], given: Any) -> str | None:
    try:
        compile_it(given)
    except ConfigError as error:
        return str(error).removeprefix("semantic: ").removeprefix("condition: ")
    return None
