"""`options` of questions about texts, as the published API takes them; what is not known is left unread."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Task = Literal["intent", "pii", "security"]
Share = Annotated[float, Meta(ge=0, le=1)]


class IntentOptions(msgspec.Struct):
    """`options` of an intent."""

    return_probabilities: bool = False
    confidence_threshold: Share | None = None
    include_explanation: bool = False


class PiiOptions(msgspec.Struct):
    """`options` of personal data."""

    entity_types: list[str] = []
    """Only these; none or `ALL`: all that can be found."""
    confidence_threshold: Share | None = None
    return_positions: bool = False
    mask_entities: bool = False


class SecurityOptions(msgspec.Struct):
    """`options` of attacks."""

    detection_types: list[str] = []
    sensitivity: Literal["low", "medium", "high"] = "medium"
    include_reasoning: bool = False


class ClassificationOptions(msgspec.Struct, forbid_unknown_fields=True):
    """Those of every task, under its name."""

    intent: IntentOptions = msgspec.field(default_factory=IntentOptions)
    pii: PiiOptions = msgspec.field(default_factory=PiiOptions)
    security: SecurityOptions = msgspec.field(default_factory=SecurityOptions)
