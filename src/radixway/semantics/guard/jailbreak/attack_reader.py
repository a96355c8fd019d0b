"""The contract of readers, which look for attacks beside the known wordings: a head, or a classifier."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, get_args

Kind = Literal["prompt_injection", "instruction_override", "adversarial_prompt", "social_engineering"]
"""`prompt_injection`: words that pose as the system's, orders hidden in data, questions for secrets.
`instruction_override`: the instructions given shall not hold. `adversarial_prompt`: a persona, a game or an
encoding that shall get around them. `social_engineering`: authority, pity, reward or threat."""

KINDS: tuple[Kind, ...] = get_args(Kind)

THREAD_MIN_CHARS = 8192
"""Characters from which a text is looked at in a thread, so that others pass meanwhile."""


@dataclass(slots=True, frozen=True)
class AttackReading:
    """A reader's result for one text."""

    risk: float
    """How likely the text is an attack: the highest of any of its parts, in [0, 1]."""
    kinds: Mapping[str, float] = field(default_factory=dict)
    """The same by kind."""
    parts: int = 1
    """The number of parts it was read in."""


class AttackReader(Protocol):
    """Reads texts in the encoder's threads."""

    @property
    def attack_kinds(self) -> tuple[str, ...]:
        """Kinds of attack that it can tell; empty where that is not known yet."""
        ...

    async def read_attack(self, text: str, hits: Mapping[str, float]) -> AttackReading:
        """Read `text`. `hits`: known wordings found in it, with their confidence. Raises EncoderError."""
        ...

    def describe(self) -> dict[str, object]:
        """Return what `/health` shows: what reads, and what could not."""
        ...
