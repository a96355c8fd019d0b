"""`guard.audit`: the record of what the guard did.

The whole section, what is different for a tenant, and what the blocked are told.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from radixway.core.config.base import ConfigError, ConfigSection
from radixway.core.config.guard.answer_rules import AnswersConfig
from radixway.core.config.guard.input_rules import JailbreakConfig, OnError, PiiConfig


class AuditConfig(ConfigSection):
    """The audit log (docs/guard.md)."""

    enabled: bool | None = None
    """By default while the guard is on."""
    path: Path | None = None
    """Its directory; by default `audit` in RADIXWAY_HOME."""
    key_env: str | None = Field(default=None, min_length=1)
    """The environment variable with the key under which entries are hashed: whoever can write the files, but
    does not know it, cannot forge them."""
    key_file: Path | None = None
    """The file that holds it, in place of `key_env`; white space around it left out."""
    retention_days: int | None = Field(default=365, ge=1)
    """Files whose entries are all older are removed. None: none ever is."""
    max_file_mib: int = Field(default=64, ge=1)
    """A file that has grown so large is followed by another one, as at the end of each day (UTC)."""
    on_error: OnError = "allow"
    """What becomes of requests while it cannot be written."""

    @model_validator(mode="after")
    def _check_single_key(self) -> Self:
        if self.key_env is not None and self.key_file is not None:
            raise ValueError("give one of key_env and key_file")
        return self


class BlockReplyConfig(ConfigSection):
    """The reply to a blocked request."""

    status: Literal[200, 403] = 200
    """200: an answer that ends with `content_filter`, as published. 403: an error."""


class LongTextsConfig(ConfigSection):
    """Texts whose whole pass through the encoder takes longer than a request can wait."""

    reading: Literal["whole", "fast"] = "whole"
    """`fast`: names by the encoder's first layers alone, attacks in the passages whose words look most like
    one; patterns and known wordings everywhere, as ever. docs/guard.md says what is missed."""
    from_characters: int = Field(default=16_000, ge=2_000)
    """Shorter texts are read whole. Some four characters are a token."""
    max_characters: int = Field(default=5_000_000, ge=100_000)
    """Of a request's texts together; one that says more is refused (413), as nothing passes unread. A token
    id counts as four until it is decoded. The default is more than a million tokens of English."""

    @property
    def fast_from_characters(self) -> int | None:
        """Characters from which texts are read fast; None for never."""
        return self.from_characters if self.reading == "fast" else None


class GuardPolicy(ConfigSection):
    """Exceptions for the tenants that name it (`tenants.<name>.guard`)."""

    pii: PiiConfig | None = None
    jailbreak: JailbreakConfig | None = None
    answers: AnswersConfig | None = None

    @model_validator(mode="after")
    def _check_shared_models(self) -> Self:
        for name, part in (("pii", self.pii), ("jailbreak", self.jailbreak)):
            own = frozenset({"model", "models_dir"}) & (part.model_fields_set if part else frozenset())
            if own:
                raise ValueError(f"{name}.{min(own)} is the same for all: set guard.{name}.{min(own)}")
        return self


class GuardConfig(ConfigSection):
    """Rules for requests and answers that may not pass.

    Off until anything here, a `prompt_guard` or a `pii_policy` is configured; then it reports, and does what
    `action` says.
    """

    enabled: bool | None = None
    """False: off, whatever else says. By default on where anything of the guard is configured."""
    pii: PiiConfig = PiiConfig()
    jailbreak: JailbreakConfig = JailbreakConfig()
    answers: AnswersConfig = AnswersConfig()
    block: BlockReplyConfig = BlockReplyConfig()
    long_texts: LongTextsConfig = LongTextsConfig()
    audit: AuditConfig = AuditConfig()
    policies: dict[str, GuardPolicy] = Field(default_factory=dict)


def is_guard_requested(guard: GuardConfig) -> bool:
    """Return whether the section `guard` itself wants requests read; classic keys may want it without."""
    if guard.enabled is not None:
        return guard.enabled
    return bool(guard.model_fields_set - {"enabled", "policies", "audit", "block", "long_texts"})


def is_guard_ever_requested(guard: GuardConfig) -> bool:
    """Return whether it wants some requests looked at: all, or those of tenants that name a policy."""
    return is_guard_requested(guard) or (guard.enabled is None and bool(guard.policies))


def check_policies(guard: GuardConfig, named: Mapping[str, str | None]) -> None:
    """Raises ConfigError for a tenant (by name: the policy that it names) whose policy is not there."""
    for tenant, policy in named.items():
        if policy is not None and policy not in guard.policies:
            known = ", ".join(sorted(guard.policies)) or "none"
            raise ConfigError(f"tenants.{tenant}.guard: guard.policies has no {policy!r}; there are: {known}")
