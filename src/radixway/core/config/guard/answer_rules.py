"""`guard.answers`: what may not leave."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from radixway.core.config.base import MAY_BE_OFF, ConfigSection
from radixway.core.config.guard.input_rules import MaskStyle, OnError, PiiType, Share

Host = Annotated[str, Field(pattern=r"^(\*\.)?[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)*$|^\[?[0-9A-Fa-f:.]+\]?$")]
"""`example.org`, or `*.example.org` for it and all below it."""


class AnswerPiiConfig(ConfigSection):
    """Personal data that an answer tells."""

    action: Annotated[Literal["off", "report", "mask", "block"], MAY_BE_OFF] = "off"
    """What becomes of personal data in answers. `mask`: soft types (people, places, dates, ages …) only where
    `types` names them."""
    types: tuple[PiiType, ...] = ()
    """Only these are looked for; empty: all."""
    threshold: Share = 0.7
    """A finding that is less sure than this is none."""
    thresholds: dict[PiiType, Share] = Field(default_factory=dict)
    """By type, in place of `threshold`."""
    mask: MaskStyle = "stars"
    """How it is masked: stars, stars of its length, or its type."""
    may_repeat: bool = True
    """What the request itself tells may be told again."""


class SystemPromptConfig(ConfigSection):
    """The system prompt, told in an answer: word for word, respaced, recased, or in a simple code."""

    action: Annotated[Literal["off", "report", "block"], MAY_BE_OFF] = "off"
    """What becomes of an answer that gives it away."""
    words: int = Field(default=12, ge=4, le=1000)
    """So many of its words in a row give it away; one and a half Chinese characters count as a word."""
    share: Share = 0.5
    """So much of it does, in runs of any length; for prompts at least as long as two of those runs."""


class ExfiltrationConfig(ConfigSection):
    """Pictures, links and addresses that would carry what was said to somebody."""

    action: Annotated[Literal["off", "report", "strip", "block"], MAY_BE_OFF] = "off"
    """`strip`: `#link-removed` stands in place of the address."""
    hosts: tuple[Host, ...] = ()
    """They may be told anything."""
    named_by: tuple[Literal["system", "user"], ...] = ("system",)
    """So may hosts that these name."""


class ModerationConfig(ConfigSection):
    """A service that judges what is said, in OpenAI's protocol."""

    url: str | None = Field(default=None, pattern=r"^https?://[^\s/]+(/\S*)?$")
    """The whole address: `https://api.openai.com/v1/moderations`. None: nobody is asked."""
    model: str | None = None
    """The model that the service is asked for."""
    action: Literal["report", "block"] = "block"
    """What becomes of an answer that the service flags."""
    api_key: SecretStr | None = None
    """Sent as a bearer token."""
    api_key_file: Path | None = None
    """In place of `api_key`; read when the gateway starts."""
    categories: dict[str, Share] = Field(default_factory=dict)
    """Least scores by category (`violence`), in place of the service's own `flagged`."""
    batch_chars: int = Field(default=240, ge=1, le=100_000)
    """An answer is judged a few sentences at a time, at least so long; what is judged waits."""
    timeout_s: float = Field(default=5, gt=0)
    """For each call; after one that fails, `on_error` says what becomes of the rest of the answer."""
    on_error: OnError = "allow"
    """What becomes of an answer that the service did not judge."""

    @model_validator(mode="after")
    def _check_single_key(self) -> Self:
        if self.api_key is not None and self.api_key_file is not None:
            raise ValueError("api_key and api_key_file exclude each other")
        return self


class HoldBackConfig(ConfigSection):
    """Bounds on how far a guarded stream may be behind its worker."""

    characters: int = Field(default=256, ge=64, le=65_536)
    """At most so many: what is longer is judged by its beginning."""
    milliseconds: float = Field(default=500, gt=0)
    """What only waits for the end of its sentence waits no longer than this."""


class AnswersConfig(ConfigSection):
    """Rules for what the guard looks for in answers. Everything is off until its `action` says otherwise."""

    pii: AnswerPiiConfig = AnswerPiiConfig()
    system_prompt: SystemPromptConfig = SystemPromptConfig()
    exfiltration: ExfiltrationConfig = ExfiltrationConfig()
    moderation: ModerationConfig = ModerationConfig()
    hold_back: HoldBackConfig = HoldBackConfig()
    on_error: OnError = "allow"
    """What becomes of an answer that cannot be read: it is told as it is, or it ends there."""

    @property
    def is_on(self) -> bool:
        """True if answers are looked at."""
        parts = (self.pii, self.system_prompt, self.exfiltration)
        return any(part.action != "off" for part in parts) or self.moderation.url is not None

    def on_error_of(self, rule: str) -> OnError:
        """Return the action for an answer that this rule (`answers.pii`) cannot judge."""
        return self.moderation.on_error if rule == "answers.moderation" else self.on_error
