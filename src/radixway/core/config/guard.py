"""The `guard` section: what may not pass, in either direction, and what becomes of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, model_validator

from radixway.core.config.base import MAY_BE_OFF, ConfigError, ConfigSection, Share

PiiAction = Literal["report", "mask", "redact", "route", "block"]
"""`report`: note it and pass on. `mask`: the model sees stars, but of soft types (people,
places, dates, ages …) only in place of those that are named. `redact`: the model sees placeholders, and the
answer has the texts again. `route`: a model that may see it answers. `block`: the request is refused."""

MaskStyle = Literal["stars", "same_length", "type"]
"""`stars`: five, however long the text was. `same_length`: one for each character that is no space. `type`:
`<EMAIL_ADDRESS>`."""

OnError = Literal["allow", "block"]
"""How to treat a request when the guard fails."""

PiiType = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
"""`EMAIL_ADDRESS`; a classifier of one's own may know others than those that ship."""


class DetectorConfig(ConfigSection):
    """What both detectors have in common."""

    enabled: bool = True
    """False: it looks for nothing."""
    threshold: Share = 0.7
    """A finding that is less sure than this is none."""
    on_error: OnError = "allow"
    """How to treat a request that could not be read."""


class PiiConfig(DetectorConfig):
    """Personal data."""

    action: PiiAction = "report"
    """Of what the answering model may not be shown: what its `pii_policy` does not allow, or anything where
    no model has a policy. By default `block` where models have one, as published."""
    actions: dict[PiiType, PiiAction] = Field(default_factory=dict)
    """By type (`EMAIL_ADDRESS`), in place of `action`. Types here and under `types` are named: `mask` masks
    them even where they are soft."""
    mask: MaskStyle = "stars"
    """Replacement of masked text."""
    types: tuple[PiiType, ...] = ()
    """Only these are looked for; empty: all."""
    thresholds: dict[PiiType, Share] = Field(default_factory=dict)
    """By type, in place of `threshold`."""
    cacheable: tuple[PiiType, ...] = ("ORGANIZATION", "GPE", "NRP", "DATE_TIME", "AGE")
    """Types that do not keep a request from the semantic cache while nothing is done about them but report;
    all others do. By default those that ordinary questions have: "How deep is Lake Baikal?"."""
    model: Path | None = None
    """A token classifier's directory, in place of the shipped head; recognisers look beside it."""
    route_to: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """The private model, for `route`. It may be shown everything, unless it has a policy itself."""

    hosted: Literal["allow", "forbid"] = "allow"
    """`forbid`: a request with personal data that is not masked or redacted is not sent to hosted models."""

    @model_validator(mode="after")
    def _check_route_target(self) -> Self:
        if "route" in (self.action, *self.actions.values()) and self.route_to is None:
            raise ValueError("the action route needs route_to, the model that may be shown it")
        return self


class JailbreakConfig(DetectorConfig):
    """Attacks on the prompt, from the one who asks or in what tools and documents say."""

    action: Literal["report", "block"] = "report"
    """How to treat an attack; `block` by default under a classic `prompt_guard`."""
    model: Path | None = None
    """A sequence classifier's directory, in place of the shipped head; patterns look beside it."""
    models_dir: Path | None = None
    """Directory of such models under their published names, searched in the published order."""


Host = Annotated[str, Field(pattern=r"^(\*\.)?[A-Za-z0-9_\-]+(\.[A-Za-z0-9_\-]+)*$|^\[?[0-9A-Fa-f:.]+\]?$")]
"""`example.org`, or `*.example.org` for it and all below it."""


class AnswerPiiConfig(ConfigSection):
    """Personal data that an answer tells."""

    action: Annotated[Literal["off", "report", "mask", "block"], MAY_BE_OFF] = "off"
    """`mask`: soft types (people, places, dates, ages …) only where `types` names them."""
    types: tuple[PiiType, ...] = ()
    """Only these are looked for; empty: all."""
    threshold: Share = 0.7
    """A finding that is less sure than this is none."""
    thresholds: dict[PiiType, Share] = Field(default_factory=dict)
    """By type, in place of `threshold`."""
    mask: MaskStyle = "stars"
    """How it is masked: stars, stars of its length, or its type."""
    may_repeat: bool = True
    """Personal data of the request itself may be repeated."""


class SystemPromptConfig(ConfigSection):
    """The system prompt, told in an answer: word for word, respaced, recased, or in a simple code."""

    action: Annotated[Literal["off", "report", "block"], MAY_BE_OFF] = "off"
    """How to treat an answer that reveals it."""
    words: int = Field(default=12, ge=4, le=1000)
    """Words in a row that reveal it; one and a half Chinese characters count as a word."""
    share: Share = 0.5
    """Share of it that reveals it, in runs of any length; for prompts at least as long as two of those runs.
    """


class ExfiltrationConfig(ConfigSection):
    """Pictures, links and addresses that would carry what was said to somebody."""

    action: Annotated[Literal["off", "report", "strip", "block"], MAY_BE_OFF] = "off"
    """`strip`: `#link-removed` stands in place of the address."""
    hosts: tuple[Host, ...] = ()
    """Hosts that may get any data."""
    named_by: tuple[Literal["system", "user"], ...] = ("system",)
    """Whose texts name further such hosts."""


class ModerationConfig(ConfigSection):
    """A service that judges what is said, in OpenAI's protocol."""

    url: str | None = Field(default=None, pattern=r"^https?://[^\s/]+(/\S*)?$")
    """The whole URL: `https://api.openai.com/v1/moderations`. None: off."""
    model: str | None = None
    """The model that the service is asked for."""
    action: Literal["report", "block"] = "block"
    """How to treat an answer that the service flags."""
    api_key: SecretStr | None = None
    """Sent as a bearer token."""
    api_key_file: Path | None = None
    """File of `api_key`; read when the gateway starts."""
    categories: dict[str, Share] = Field(default_factory=dict)
    """Least scores by category (`violence`), in place of the service's own `flagged`."""
    batch_chars: int = Field(default=240, ge=1, le=100_000)
    """An answer is judged a few sentences at a time, at least so long; what is judged waits."""
    timeout_s: float = Field(default=5, gt=0)
    """Timeout of each call; after a failed one, `on_error` decides on the rest of the answer."""
    on_error: OnError = "allow"
    """How to treat an answer that the service did not judge."""

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
    """Longest wait for the end of a sentence."""


class AnswersConfig(ConfigSection):
    """Rules for what the guard looks for in answers. Everything is off until its `action` says otherwise."""

    pii: AnswerPiiConfig = AnswerPiiConfig()
    system_prompt: SystemPromptConfig = SystemPromptConfig()
    exfiltration: ExfiltrationConfig = ExfiltrationConfig()
    moderation: ModerationConfig = ModerationConfig()
    hold_back: HoldBackConfig = HoldBackConfig()
    on_error: OnError = "allow"
    """How to treat an answer that cannot be read: pass it unchanged, or end it."""

    @property
    def is_on(self) -> bool:
        """True if answers are looked at."""
        parts = (self.pii, self.system_prompt, self.exfiltration)
        return any(part.action != "off" for part in parts) or self.moderation.url is not None

    def on_error_of(self, rule: str) -> OnError:
        """Return the action for an answer that this rule (`answers.pii`) cannot judge."""
        return self.moderation.on_error if rule == "answers.moderation" else self.on_error


class AuditConfig(ConfigSection):
    """The audit log (docs/guard.md)."""

    enabled: bool | None = None
    """By default while the guard is on."""
    path: Path | None = None
    """Its directory; by default `audit` in RADIXWAY_HOME."""
    key_env: str | None = Field(default=None, min_length=1)
    """The variable with the key under which entries are hashed: without it nobody can forge them."""
    key_file: Path | None = None
    """The file that holds it, in place of `key_env`; white space around it left out."""
    retention_days: int | None = Field(default=365, ge=1)
    """Files whose entries are all older are removed. None: none ever is."""
    max_file_mib: int = Field(default=64, ge=1)
    """A file that has grown so large is followed by another one, as at the end of each day (UTC)."""
    on_error: OnError = "allow"
    """How to treat requests while it cannot be written."""

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
    one; patterns and known wordings everywhere, as ever. docs/evaluations/guard.md says what is missed."""
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

    @property
    def private_models(self) -> frozenset[str]:
        """The models that the action `route` has answer in place of others."""
        sections = (self.pii, *(policy.pii for policy in self.policies.values()))
        return frozenset(each.route_to for each in sections if each is not None and each.route_to)


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
