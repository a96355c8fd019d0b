"""The guard's rules for one request, from the many forms of the configuration.

`guard` ◂ the tenant's policy ◂ the category ◂ the decision that won. The classic keys stand below `guard`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from radixway.core.config.base import ConfigSection
from radixway.core.config.guard import (
    GuardConfig,
    GuardPolicy,
    JailbreakConfig,
    PiiConfig,
    is_guard_ever_requested,
    is_guard_requested,
)
from radixway.semantics.guard.pii.labels import SOFT_TYPES

if TYPE_CHECKING:
    from radixway.core.config.guard import OnError, PiiAction
    from radixway.core.config.semantic import SemanticConfig

S = TypeVar("S", bound=ConfigSection)


@dataclass(frozen=True, slots=True)
class PiiAllowance:
    """Personal data that a model may be shown."""

    everything: bool = False
    types: frozenset[str] = frozenset()
    is_given: bool = False
    """Whether a policy lists what may be shown; all else is denied by name."""

    def denied_types(self, types: frozenset[str]) -> frozenset[str]:
        """Return those of `types` that it may not be shown."""
        return frozenset() if self.everything else types - self.types


@dataclass(frozen=True, slots=True)
class PiiRules:
    """Rules for personal data."""

    config: PiiConfig
    """The section in force, of which `enabled`, `action` and `threshold` count as below."""
    enabled: bool
    action: PiiAction
    threshold: float
    allowances: Mapping[str, PiiAllowance]
    """By model."""
    otherwise: PiiAllowance
    """The allowance of models that are not among them."""

    def allowance(self, model: str | None) -> PiiAllowance:
        """Return the allowance of `model`; if that is not known yet, what every model may be shown."""
        if model is not None:
            return self.allowances.get(model, self.otherwise)
        named = (self.otherwise, *self.allowances.values())
        narrow = [allowance.types for allowance in named if not allowance.everything]
        if not narrow:
            return PiiAllowance(everything=True)
        given = any(allowance.is_given for allowance in named if not allowance.everything)
        return PiiAllowance(types=frozenset.intersection(*narrow), is_given=given)

    def action_on(self, name: str, allowance: PiiAllowance) -> PiiAction:
        """Return the action on the type `name`, which `allowance` denies. A soft type is masked only if it is
        named: under `actions` or `types`, or by an explicit allowance for the model.
        """
        action = self.config.actions.get(name)
        if action is not None:
            return action
        is_named = name in self.config.types or allowance.is_given
        return "report" if self.action == "mask" and name in SOFT_TYPES and not is_named else self.action


@dataclass(frozen=True, slots=True)
class JailbreakRules:
    """Rules for attacks."""

    enabled: bool
    blocks: bool
    threshold: float
    on_error: OnError


@dataclass(frozen=True, slots=True)
class GuardRules:
    """Both for one request."""

    pii: PiiRules
    jailbreak: JailbreakRules


class GuardRulebook:
    """The rules of a configuration, for every tenant, category and decision."""

    def __init__(self, guard: GuardConfig, semantic: SemanticConfig | None) -> None:
        self._guard = guard
        self._semantic = semantic if semantic is not None and semantic.is_on else None
        self._allowances = {} if self._semantic is None else _allowances(self._semantic)
        self.is_on = guard.enabled is not False and (is_guard_ever_requested(guard) or self._is_classic())
        """Whether requests are read at all."""
        self._known: dict[tuple[str | None, str | None, str | None], GuardRules] = {}

    def rules_for(self, policy: str | None, category: str | None, decision: str | None) -> GuardRules:
        """Return the rules for a tenant's `policy`, a `category` and the winning `decision`, where known."""
        key = (policy, category, decision)  # all three are names of the configuration
        if key not in self._known:
            self._known[key] = self._resolve_rules(*key)
        return self._known[key]

    def _is_classic(self) -> bool:
        if self._semantic is None:
            return False
        from radixway.core.config.semantic import requests_guard

        return requests_guard(self._semantic)

    def _resolve_rules(self, policy: str | None, category: str | None, decision: str | None) -> GuardRules:
        own = self._guard.policies.get(policy, GuardPolicy()) if policy else GuardPolicy()
        pii = overlay_section(self._guard.pii, own.pii)
        jailbreak = overlay_section(self._guard.jailbreak, own.jailbreak)
        is_requested = is_guard_requested(self._guard)
        rules = GuardRules(
            self._pii_rules(pii, is_requested=is_requested or own.pii is not None),
            self._jailbreak_rules(jailbreak, is_requested=is_requested or own.jailbreak is not None),
        )
        if not self.is_on or self._semantic is None:
            return rules
        blocks = "action" not in jailbreak.model_fields_set
        rules = self._category_rules(rules, self._semantic, category, blocks=blocks)
        acts = "action" not in pii.model_fields_set
        return self._decision_rules(rules, self._semantic, decision, blocks=blocks, acts=acts)

    def _pii_rules(self, section: PiiConfig, *, is_requested: bool) -> PiiRules:
        allowances, semantic = self._allowances, self._semantic
        threshold = section.threshold
        if semantic is not None and "threshold" not in section.model_fields_set:
            threshold = semantic.classifier.pii_model.threshold
        return PiiRules(
            section,
            enabled=self.is_on and section.enabled and (is_requested or bool(allowances)),
            action="block" if allowances and "action" not in section.model_fields_set else section.action,
            threshold=threshold,
            allowances=_trusted_models(section.route_to) | allowances,
            otherwise=PiiAllowance(everything=bool(allowances) or not is_requested),
        )

    def _jailbreak_rules(self, section: JailbreakConfig, *, is_requested: bool) -> JailbreakRules:
        classic = None if self._semantic is None else self._semantic.prompt_guard
        if classic is not None and not classic.enabled:
            classic = None
        threshold = section.threshold
        if classic is not None and "threshold" not in section.model_fields_set:
            threshold = classic.threshold
        return JailbreakRules(
            enabled=self.is_on and section.enabled and (is_requested or classic is not None),
            blocks=classic is not None
            if "action" not in section.model_fields_set
            else section.action == "block",
            threshold=threshold,
            on_error=section.on_error,
        )

    def _category_rules(
        self, rules: GuardRules, semantic: SemanticConfig, name: str | None, *, blocks: bool
    ) -> GuardRules:
        category = next((category for category in semantic.categories if category.name == name), None)
        if category is None:
            return rules
        jailbreak = _with_overrides(rules.jailbreak, category.jailbreak_enabled, category.jailbreak_threshold)
        if category.jailbreak_enabled and blocks:
            jailbreak = replace(jailbreak, blocks=True)
        return GuardRules(_with_overrides(rules.pii, category.pii_enabled, category.pii_threshold), jailbreak)

    def _decision_rules(
        self, rules: GuardRules, semantic: SemanticConfig, name: str | None, *, blocks: bool, acts: bool
    ) -> GuardRules:
        """Apply the decision's plugins; a guard that they switch on blocks, unless its action is given."""
        decision = next((decision for decision in semantic.decisions if decision.name == name), None)
        for plugin in () if decision is None else decision.plugins:
            given = plugin.configuration
            if plugin.type == "jailbreak":
                judged = _with_overrides(rules.jailbreak, given.get("enabled", True), given.get("threshold"))
                rules = replace(rules, jailbreak=replace(judged, blocks=blocks or judged.blocks))
            elif plugin.type == "pii":
                found = _with_overrides(rules.pii, given.get("enabled", True), given.get("threshold"))
                types = frozenset(given.get("pii_types_allowed", ()))
                allowed = PiiAllowance(types=types, is_given=True)
                found = replace(found, allowances=_trusted_models(found.config.route_to), otherwise=allowed)
                rules = replace(rules, pii=replace(found, action="block") if acts else found)
        return rules


def _allowances(semantic: SemanticConfig) -> dict[str, PiiAllowance]:
    """Return the allowances by model; a model's adapters are under its policy."""
    allowances: dict[str, PiiAllowance] = {}
    for name, params in semantic.models.items():
        policy = params.pii_policy
        if policy is not None:
            types = frozenset(policy.pii_types_allowed)
            allowance = PiiAllowance(policy.allow_by_default, types, is_given=True)
            allowances |= dict.fromkeys((name, *(lora.name for lora in params.loras)), allowance)
    return allowances


def _trusted_models(model: str | None) -> dict[str, PiiAllowance]:
    return {} if model is None else {model: PiiAllowance(everything=True)}


def overlay_section(below: S, own: S | None) -> S:
    """Return `below` with what `own` says itself, key by key in sections within it."""
    update = {}
    for name in () if own is None else own.model_fields_set:
        new = getattr(own, name)
        update[name] = overlay_section(getattr(below, name), new) if isinstance(new, ConfigSection) else new
    return below.model_copy(update=update)


R = TypeVar("R", PiiRules, JailbreakRules)


def _with_overrides(rules: R, enabled: bool | None, threshold: float | None) -> R:
    return replace(
        rules,
        enabled=rules.enabled if enabled is None else enabled,
        threshold=rules.threshold if threshold is None else threshold,
    )
