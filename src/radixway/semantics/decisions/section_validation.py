"""Mistakes in a section that only compiling finds, and warnings of what has no effect."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from radixway.core.config import ConfigError
from radixway.core.config.semantic import SemanticConfig, file_mistakes_at, parse_semantic
from radixway.core.config.yaml_file import Place
from radixway.semantics.decisions.expression_parser import parse_expression

_HEADS = "the shipped head is used"
_GUARD = "the shipped guard is used"


def find_warnings(section: SemanticConfig) -> Iterator[tuple[str, str]]:
    """Yield the keys that have no effect, or not the one they seem to have, and what happens instead.

    Looks at files for the models that are named; no hub is asked.
    """
    default = section.default_model
    if default and not (section.routes_by_rule or section.shipped_scores or section.tier_models()):
        yield (
            "default_model",
            f"every request for auto goes to default_model {default!r}: to choose by difficulty, name models "
            "under semantic.tiers (small and large); to choose by subject, under semantic.categories",
        )
    if section.shipped_scores:
        for name, scores in section.published_scores().items():
            if scores is None:
                yield (
                    "shipped_scores",
                    f"model {name!r} has no published scores, so no category chooses it: "
                    f"name a model like it under model_config.{name}.scored_as",
                )
    classifier, guard = section.classifier, section.prompt_guard
    named = [
        (classifier.category_model.model_id, _HEADS),
        (classifier.pii_model.model_id, _GUARD),
        (guard.model_id if guard is not None else "", _GUARD),
        (section.embedding_models.qwen3_model_path, "the encoder under `encoders` is used"),
        (section.embedding_models.gemma_model_path, "the encoder under `encoders` is used"),
        (_tools_database(section), "no tools are selected from it"),
    ]
    for name, instead in named:
        if name and not Path(name).exists():
            yield name, f"{name} is not on this machine: {instead}"
    if section.classifier.mcp_category_model.enabled:
        yield "mcp_category_model", f"classifier.mcp_category_model is not supported: {_HEADS}"
    for kind, given in (
        ("fact_check", section.signals.fact_check),
        ("user_feedbacks", section.signals.user_feedbacks),
        ("preferences", section.signals.preferences),
    ):
        if given:
            yield f"signals.{kind}", f"signals.{kind} are not read here: conditions on them never hold"


def _tools_database(section: SemanticConfig) -> str:
    tools = section.tools
    return tools.tools_db_path or "" if tools is not None and tools.enabled else ""


def parse_section(text: str, path: Path) -> SemanticConfig:
    """Return the section in the text of a file. Raises ConfigFileError with every mistake by its line, also
    those that only compiling finds.
    """
    section = parse_semantic(text, path)
    mistakes = file_mistakes_at(path, text, find_compile_errors(section))
    if mistakes is not None:
        raise mistakes
    return section


def find_compile_errors(section: SemanticConfig) -> Iterator[tuple[Place, str]]:
    """Patterns are looked at where RE2 is installed, expressions always."""
    for index, policy in enumerate(section.policy_rules):
        if mistake := _compile_error(parse_expression, policy.condition):
            yield ("policy_rules", index, "condition"), mistake
    try:
        from radixway.semantics.signals.keyword import KeywordDetector, RegexDetector
    except ImportError:
        return
    lists: list[tuple[Place, Sequence[Any], Callable[[Any], object], str]] = [
        (("regex_rules",), section.regex_rules, RegexDetector, "pattern"),
        (("signals", "regexes"), section.signals.regexes, RegexDetector, "pattern"),
        (("keyword_rules",), section.keyword_rules, KeywordDetector, "keywords"),
        (("signals", "keywords"), section.signals.keywords, KeywordDetector, "keywords"),
    ]
    for at, rules, compile_rules, key in lists:
        for index, rule in enumerate(rules):
            if mistake := _compile_error(compile_rules, [rule]):
                yield (*at, index, key), mistake


def _compile_error(compile_it: Callable[[Any], object], given: Any) -> str | None:
    try:
        compile_it(given)
    except ConfigError as error:
        return str(error).removeprefix("semantic: ").removeprefix("condition: ")
    return None
