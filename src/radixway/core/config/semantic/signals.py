"""The signals that are read of a request, and rules over them: boolean trees and expressions."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, model_validator

from radixway.core.config.base import ConfigSection, Share
from radixway.core.config.semantic.models import Comment, ModelName, SignalName, Unused

_MULTIPLES = {"": 1, "K": 1_000, "M": 1_000_000}


def _parse_token_count(value: object) -> object:
    """Parse `32K` and `1.5M`."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KkMm]?)\s*", value)
    if found is None:
        raise ValueError(f"a number of tokens is like 500, 32K or 1.5M, not {value!r}")
    return int(float(found[1]) * _MULTIPLES[found[2].upper()])


Tokens = Annotated[int, BeforeValidator(_parse_token_count), Field(ge=0)]
UPPER_CASE = BeforeValidator(lambda value: value.upper() if isinstance(value, str) else value)
Operator = Annotated[Literal["AND", "OR", "NOT", "NOR"], UPPER_CASE]


class KeywordSignalConfig(ConfigSection):
    """Words and phrases in the prompt."""

    name: SignalName = Field(validation_alias=AliasChoices("name", "category"))
    operator: Operator = "OR"
    """All of them, any, or none (NOT and NOR are the same)."""
    keywords: tuple[Annotated[str, Field(min_length=1)], ...] = Field(min_length=1)
    """Words and phrases; Chinese ones match anywhere."""
    case_sensitive: bool = False
    """Whether case matters."""
    method: Literal["exact", "regex", "fuzzy"] = "exact"
    """Regular expressions are RE2's: no look-around, and time linear in the text."""
    fuzzy_threshold: float = Field(default=85, ge=0, le=100)
    """Least likeness of a word, in percent."""
    models: tuple[ModelName, ...] = ()
    """Models for a matching prompt, best first, without further decision."""
    priority: int = 150
    """Priority of that among the rules."""


class RegexSignalConfig(ConfigSection):
    """A pattern of the prompt, and what is done about it."""

    name: SignalName
    pattern: str = Field(min_length=1)
    """A regular expression (RE2)."""
    case_sensitive: bool = False
    """Whether case matters."""
    action: Literal["block", "route", "log"] = "log"
    """What follows where it matches."""
    message: str = ""
    """Message to a blocked request."""
    models: tuple[ModelName, ...] = ()
    """Where it goes under `route`, the best first."""
    priority: int | None = None
    """By default 200 for blocks and 150 for routes."""


class EmbeddingSignalConfig(ConfigSection):
    """Sentences that the prompt may be like."""

    name: SignalName = Field(validation_alias=AliasChoices("name", "category"))
    threshold: Share = 0.75
    """Least likeness that matches."""
    candidates: tuple[str, ...] = Field(
        min_length=1, validation_alias=AliasChoices("candidates", "keywords", "examples")
    )
    """The sentences."""
    aggregation_method: Literal["mean", "max", "any"] = Field(
        default="max", validation_alias=AliasChoices("aggregation_method", "aggregate")
    )
    """What must reach the threshold: their mean likeness, the best, or any one (the first that does)."""
    action: Literal["none", "route", "boost_category"] = "none"
    """What follows at once where it matches."""
    models: tuple[ModelName, ...] = ()
    """Where it goes under `route`, the best first."""
    category: str | None = None
    """The category that is meant by `boost_category`."""
    boost_weight: float = Field(default=1.5, gt=0, validation_alias=AliasChoices("boost_weight", "boost"))
    """By how much that is multiplied."""
    priority: int = 100
    """Of its action, among the rules."""
    model: Unused[str | None] = None
    dimension: Unused[int | None] = None
    quality_priority: Unused[Share | None] = None
    latency_priority: Unused[Share | None] = None


class NamedSignalConfig(ConfigSection):
    """A signal of the peer that is known by its name alone."""

    name: SignalName
    description: Comment = ""


class DomainSignalConfig(NamedSignalConfig):
    """Labels of the domain head under a name of one's own."""

    mmlu_categories: tuple[str, ...] = ()
    """Labels of the domain head that count as this one."""

    def labels(self) -> tuple[str, ...]:
        """Labels of the domain head for this signal."""
        return self.mmlu_categories or (self.name,)


class LanguageSignalConfig(NamedSignalConfig):
    """The prompt's language; its `name` is an ISO 639-1 code: `zh`, `en` …"""


class ContextSignalConfig(NamedSignalConfig):
    """The length of the conversation."""

    min_tokens: Tokens = 0
    """Fewest tokens that match …"""
    max_tokens: Tokens | None = None
    """… up to so many."""


class ExampleSentences(ConfigSection):
    """Sentences that stand for one side of a comparison."""

    candidates: tuple[str, ...] = Field(min_length=1)
    """The sentences."""


class ComplexitySignalConfig(NamedSignalConfig):
    """The difficulty of a prompt, by examples or by a trained head: `NAME:hard`, `:medium`, `:easy`."""

    threshold: Share = 0.1
    """By how much likeness to hard examples must pass that to easy ones, or the other way round; with a head,
    by how much the strong model must be likelier to answer well."""
    hard: ExampleSentences | None = None
    easy: ExampleSentences | None = None
    head: Path | None = None
    """Instead of examples: what `tools/train_quality_head.py` learnt of who answers which question well."""

    @model_validator(mode="after")
    def _check_examples_or_head(self) -> Self:
        examples = (self.hard is not None, self.easy is not None)
        if examples not in ((True, True), (False, False)) or (self.head is None) != all(examples):
            raise ValueError(f"{self.name} needs hard and easy, or a head")
        return self


class HeaderSignalConfig(ConfigSection):
    """A header of the request."""

    name: SignalName
    header: Annotated[str, Field(pattern=r"^[Xx]-[A-Za-z0-9-]+$")]
    """One that begins with x-, as all that travel on do; none that only a trusted hop may send."""
    values: tuple[str, ...] = ()
    """Any of these; none given: the header is there."""
    pattern: str | None = None
    """Or a regular expression (RE2) for the whole value."""


class GuardSignalConfig(NamedSignalConfig):
    """The guard's findings, which the guard itself reads."""

    threshold: Share = 0.7
    """A finding that is less sure than this does not match."""
    method: Unused[str | None] = None
    include_history: Unused[bool] = False
    pii_types_allowed: tuple[str, ...] = ()
    """Types that do not match."""
    jailbreak_patterns: Unused[tuple[str, ...]] = ()
    benign_patterns: Unused[tuple[str, ...]] = ()


class SignalsConfig(ConfigSection):
    """`signals` of v0.1, and three of our own."""

    keywords: tuple[KeywordSignalConfig, ...] = ()
    regexes: tuple[RegexSignalConfig, ...] = ()
    embeddings: tuple[EmbeddingSignalConfig, ...] = ()
    domains: tuple[DomainSignalConfig, ...] = ()
    language: tuple[LanguageSignalConfig, ...] = ()
    context: tuple[ContextSignalConfig, ...] = ()
    complexity: tuple[ComplexitySignalConfig, ...] = ()
    headers: tuple[HeaderSignalConfig, ...] = ()
    jailbreak: tuple[GuardSignalConfig, ...] = ()
    pii: tuple[GuardSignalConfig, ...] = ()
    fact_check: tuple[NamedSignalConfig, ...] = ()
    """Like the next two, never matches here; the log warns once."""
    user_feedbacks: tuple[NamedSignalConfig, ...] = ()
    preferences: tuple[NamedSignalConfig, ...] = ()


Action = Literal["route", "block", "boost_category", "fallthrough"]

Kind = Literal[
    "keyword",
    "regex",
    "embedding",
    "domain",
    "language",
    "context",
    "complexity",
    "header",
    "jailbreak",
    "pii",
    "fact_check",
    "user_feedback",
    "preference",
]
"""Values of a condition's `type`."""


class SignalCondition(ConfigSection):
    """A node of a tree: a signal (`type`, `name`), or an operator over conditions. `{}` always holds."""

    type: Kind | None = None
    """The kind of a signal."""
    name: SignalName | None = None
    """The signal's name."""
    operator: Annotated[Literal["AND", "OR", "NOT"] | None, UPPER_CASE] = None
    """Over `conditions`."""
    conditions: tuple[SignalCondition, ...] = ()

    @model_validator(mode="after")
    def _check_shape(self) -> Self:
        if self.type is not None or self.name is not None:
            if self.operator is not None or self.conditions:
                raise ValueError("a condition is a signal (type, name) or an operator, not both")
            if self.type is None or self.name is None:
                raise ValueError("a signal needs both its type and its name")
        elif self.operator == "NOT" and len(self.conditions) != 1:
            raise ValueError("NOT takes exactly one condition")
        elif self.operator == "OR" and not self.conditions:
            raise ValueError("OR needs conditions")
        return self


class ModelRef(ConfigSection):
    """A model that a decision may choose; earlier ones are better unless they have scores."""

    model: ModelName
    """Its name, as requests name it."""
    use_reasoning: bool = False
    """Let the model reason."""
    reasoning_effort: str | None = None
    """Effort for models that read one."""
    lora_name: ModelName | None = None
    """The adapter's name goes to the worker in place of the model's."""
    score: float | None = Field(default=None, gt=0)
    """How good it is here; by default its place in the list says so."""


class SystemPromptPlugin(ConfigSection):
    """`configuration` of `system_prompt`."""

    enabled: bool = True
    system_prompt: str = ""
    mode: Literal["replace", "insert"] = "replace"


class CachePlugin(ConfigSection):
    """`configuration` of `semantic-cache`."""

    enabled: bool = True
    similarity_threshold: Share | None = None


class NamedValue(ConfigSection):
    """A header."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")]
    value: str


class HeaderMutation(ConfigSection):
    """`configuration` of `header_mutation`: what becomes of the headers that workers get."""

    add: tuple[NamedValue, ...] = ()
    update: tuple[NamedValue, ...] = ()
    delete: tuple[str, ...] = ()


class JailbreakPlugin(ConfigSection):
    """`configuration` of `jailbreak`."""

    enabled: bool = True
    threshold: Share | None = None


class PiiPlugin(JailbreakPlugin):
    """`configuration` of `pii`."""

    pii_types_allowed: tuple[str, ...] = ()
    """All that the decision's models may be shown, whatever their own policies say."""


_PLUGIN_CONFIGURATIONS: dict[str, type[ConfigSection]] = {
    "system_prompt": SystemPromptPlugin,
    "semantic-cache": CachePlugin,
    "header_mutation": HeaderMutation,
    "jailbreak": JailbreakPlugin,
    "pii": PiiPlugin,
}


class DecisionPlugin(ConfigSection):
    """An additional effect of a decision. `pii` and `jailbreak` are the guard's; `hallucination` has none."""

    type: Literal["system_prompt", "semantic-cache", "pii", "jailbreak", "hallucination", "header_mutation"]
    """The plugin's action beside the choice of a model."""
    configuration: dict[str, Any] = Field(default_factory=dict)
    """Settings of the plugin."""

    @model_validator(mode="after")
    def _check_configuration(self) -> Self:
        if self.type in _PLUGIN_CONFIGURATIONS:
            _PLUGIN_CONFIGURATIONS[self.type].model_validate(self.configuration)
        return self


class RuleConfig(ConfigSection):
    """What the two kinds of rules have in common."""

    name: SignalName
    description: Comment = ""
    action: Action
    """What follows where it holds."""
    priority: int = 0
    """The highest that holds wins."""
    category: str | None = None
    """The category that is meant by `route` and `boost_category`."""
    boost_weight: float = Field(default=1.5, gt=0)
    """By how much `boost_category` multiplies."""
    message: str = ""
    """Message to a blocked request."""


class DecisionRule(RuleConfig):
    """One of `decisions`: a tree of signals."""

    model_config = ConfigDict(serialize_by_alias=True)

    rules: SignalCondition = SignalCondition()
    model_refs: tuple[ModelRef, ...] = Field(default=(), alias="modelRefs")
    plugins: tuple[DecisionPlugin, ...] = ()
    action: Action = "route"


class PolicyRule(RuleConfig):
    """One of `policy_rules`: an expression over signals."""

    condition: str = Field(min_length=1, max_length=4096)
    """`keyword.k8s.matched && bert.confidence > 0.7`: docs/reference/semantic.md."""
    models: tuple[ModelName, ...] = ()
    """Models of the request, best first."""
