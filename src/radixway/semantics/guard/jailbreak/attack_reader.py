"""What reads a text for attacks beside the known wordings: the shipped head, or a classifier by path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

LONG = 8192
"""Characters from which a text is looked at in a thread, so that others pass meanwhile."""


@dataclass(slots=True, frozen=True)
class AttackReading:
    """What a reader says of a text."""

    risk: float
    """That it is an attack: the highest of any of its parts, in [0, 1]."""
    kinds: Mapping[str, float] = field(default_factory=dict)
    """The same by kind."""
    parts: int = 1
    """How many parts it was read in."""


class AttackReader(Protocol):
    """Reads texts in the encoder's threads."""

    @property
    def attack_kinds(self) -> tuple[str, ...]:
        """What it can tell; empty where that is not known yet."""
        ...

    async def read_attack(self, text: str, hits: Mapping[str, float]) -> AttackReading:
        """`hits`: known wordings found in the text, with their confidence. Raises EncoderError."""
        ...

    def describe(self) -> dict[str, object]:
        """For `/health`: what reads, and what could not."""
        ...
