"""Mistakes in a section that only compiling finds, each with its place: expressions and patterns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from radixway.config import ConfigError
from radixway.config.semantic import SemanticSection, mistakes_at, parse_semantic
from radixway.config.yaml_file import Place
from radixway.semantic.expression import parse


def check_text(text: str, path: Path) -> SemanticSection:
    """The section in the text of a file. Raises FileMistakes: every mistake by its line, also those that only
    compiling finds.
    """
    section = parse_semantic(text, path)
    mistakes = mistakes_at(path, text, compiling_mistakes(section))
    if mistakes is not None:
        raise mistakes
    return section


def compiling_mistakes(section: SemanticSection) -> Iterator[tuple[Place, str]]:
    """Patterns are looked at where RE2 is installed, expressions always."""
    for index, policy in enumerate(section.policy_rules):
        said = _said(parse, policy.condition)
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
            if said := _said(RegexDetector, [rule]):
                yield (*at, index, "pattern"), said
    keywords: list[tuple[Place, Any]] = [
        (("keyword_rules",), section.keyword_rules),
        (("signals", "keywords"), section.signals.keywords),
    ]
    for at, rules in keywords:
        for index, rule in enumerate(rules):
            if said := _said(KeywordDetector, [rule]):
                yield (*at, index, "keywords"), said


def _said(compile_it: Callable[[Any], object], given: Any) -> str | None:
    try:
        compile_it(given)
    except ConfigError as error:
        return str(error).removeprefix("semantic: ").removeprefix("condition: ")
    return None
