"""`guard.pii`: personal data in what is asked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from radixway.config.base import Section

PiiAction = Literal["report", "mask", "redact", "route", "block"]
"""`report`: note it and pass on. `mask`: the model sees stars. `redact`: the model sees placeholders, and the
answer has the texts again. `route`: a model that may see it answers. `block`: nobody answers."""

OnError = Literal["allow", "block"]
"""What becomes of a request where the guard fails."""

Share = Annotated[float, Field(ge=0, le=1)]


class PiiSection(Section):
    """Personal data."""

    enabled: bool = True
    action: PiiAction = "report"
    """Of what the answering model's `pii_policy`, where it has one, does not allow."""
    actions: dict[str, PiiAction] = Field(default_factory=dict)
    """By type (`EMAIL_ADDRESS`), in place of `action`."""
    types: tuple[str, ...] = ()
    """Only these are looked for; empty: all."""
    threshold: Share = 0.7
    thresholds: dict[str, Share] = Field(default_factory=dict)
    """By type, in place of `threshold`."""
    model: Path | None = None
    """A token classifier's directory, in place of the shipped head; recognisers look beside it."""
    route_to: str | None = None
    """The private model, for `route`."""
    on_error: OnError = "allow"
