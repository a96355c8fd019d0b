"""Rules over signals: the boolean trees of v0.1 and the expressions of the published routing proposal."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from radixway.core.config.base import ConfigSection, Share
from radixway.core.config.semantic.models import Comment, ModelName, SignalName
from radixway.core.config.semantic.signals import UPPER_CASE

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
"""What a condition's `type` may be."""


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
    """Whether it is to think."""
    reasoning_effort: str | None = None
    """For models that read one."""
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
    """What is done beside the choice of a model."""
    configuration: dict[str, Any] = Field(default_factory=dict)
    """What that plugin takes."""

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
    """What a request that it blocks is told."""


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
    """`keyword.k8s.matched && bert.confidence > 0.7`: docs/semantic.md."""
    models: tuple[ModelName, ...] = ()
    """Where a request goes, the best first."""
