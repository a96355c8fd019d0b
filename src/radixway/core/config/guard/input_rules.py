"""`guard.pii`: personal data in what is asked.

`guard.jailbreak`: attacks on the prompt.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from radixway.core.config.base import ConfigSection

PiiAction = Literal["report", "mask", "redact", "route", "block"]
"""`report`: note it and pass on. `mask`: the model sees stars, but of soft types (people,
places, dates, ages …) only in place of those that are named. `redact`: the model sees placeholders, and the
answer has the texts again. `route`: a model that may see it answers. `block`: nobody answers."""

MaskStyle = Literal["stars", "same_length", "type"]
"""`stars`: five, however long the text was. `same_length`: one for each character that is no space. `type`:
`<EMAIL_ADDRESS>`."""

OnError = Literal["allow", "block"]
"""What becomes of a request where the guard fails."""

Share = Annotated[float, Field(ge=0, le=1)]

PiiType = Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]{0,63}$")]
"""`EMAIL_ADDRESS`; a classifier of one's own may know others than those that ship."""


class PiiConfig(ConfigSection):
    """Personal data."""

    enabled: bool = True
    """False: personal data is not looked for."""
    action: PiiAction = "report"
    """Of what the answering model may not be shown: what its `pii_policy` does not allow, or anything where
    no model has a policy. By default `block` where models have one, as published."""
    actions: dict[PiiType, PiiAction] = Field(default_factory=dict)
    """By type (`EMAIL_ADDRESS`), in place of `action`. Types here and under `types` are named: `mask` masks
    them even where they are soft."""
    mask: MaskStyle = "stars"
    """What stands in place of what is masked."""
    types: tuple[PiiType, ...] = ()
    """Only these are looked for; empty: all."""
    threshold: Share = 0.7
    """A finding that is less sure than this is none."""
    thresholds: dict[PiiType, Share] = Field(default_factory=dict)
    """By type, in place of `threshold`."""
    cacheable: tuple[PiiType, ...] = ()
    """Types that do not keep a request from the semantic cache; all others do."""
    model: Path | None = None
    """A token classifier's directory, in place of the shipped head; recognisers look beside it."""
    route_to: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """The private model, for `route`. It may be shown everything, unless it has a policy itself."""
    on_error: OnError = "allow"
    """What becomes of a request that could not be read."""

    @model_validator(mode="after")
    def _check_route_target(self) -> Self:
        if "route" in (self.action, *self.actions.values()) and self.route_to is None:
            raise ValueError("the action route needs route_to, the model that may be shown it")
        return self


class JailbreakConfig(ConfigSection):
    """Attacks on the prompt, from the one who asks or in what tools and documents say."""

    enabled: bool = True
    """False: attacks are not looked for."""
    action: Literal["report", "block"] = "report"
    """What becomes of a request that attacks; `block` by default under a classic `prompt_guard`."""
    threshold: Share = 0.7
    """An attack that is less likely than this is none."""
    model: Path | None = None
    """A sequence classifier's directory, in place of the shipped head; patterns look beside it."""
    models_dir: Path | None = None
    """Where such models are looked for by their published names, in the published order."""
    on_error: OnError = "allow"
    """What becomes of a request that could not be read."""
