"""Interfaces between layers; the composition root (`gateway/app.py`) passes the implementations."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class GuardUnavailableError(Exception):
    """No guard can judge now; the text says why."""


@dataclass(frozen=True, slots=True)
class PersonalDataSpan:
    """A span of a text that is personal data."""

    type: str
    """`PERSON`, `EMAIL_ADDRESS` …"""
    begin: int
    """Start in characters."""
    end: int
    confidence: float


@dataclass(frozen=True, slots=True)
class AttackAssessment:
    """The likelihood that a text attacks the prompt that it will be part of."""

    risk: float
    """Risk of an attack of any kind: the highest of any part of the text, in [0, 1]."""
    kinds: Mapping[str, float]
    """The same by kind."""
    patterns: tuple[str, ...] = ()
    """Names of known patterns that were found, where patterns are looked for."""
    parts: int = 1
    """How many parts the text was judged in."""


@dataclass(frozen=True, slots=True)
class GuardFindings:
    """The guard's findings in the texts of one request."""

    personal_data: Sequence[PersonalDataSpan] | None
    """Findings of any confidence; None where no detector was available."""
    attacks: Sequence[AttackAssessment] | None
    pii_threshold: float
    """Confidence from which a finding counts by default."""
    jailbreak_threshold: float


class GuardClearance(Protocol):
    """The guard's findings on a request, for the choice of its model."""

    def may_show(self, model: str) -> bool:
        """Return whether the model may be shown the request as it is now."""

    @property
    def may_leave(self) -> bool:
        """Whether a hosted model may be shown the request as it is now."""

    @property
    def fallback_model(self) -> str | None:
        """The model that answers where no other may be shown it; None: the guard sees to it otherwise."""


class PersonalDataFinder(Protocol):
    """Finds personal data."""

    @property
    def threshold(self) -> float:
        """Confidence from which a finding counts by default."""

    @property
    def types(self) -> tuple[str, ...]:
        """Types that can be found; empty where that is not known yet."""

    async def find(self, text: str) -> Sequence[PersonalDataSpan]:
        """Return all findings in the order of `text`, none overlapping. Raises GuardUnavailableError."""


class AttackJudge(Protocol):
    """Tells attacks on the prompt from other texts."""

    @property
    def threshold(self) -> float:
        """Risk from which a text is an attack by default."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds that can be told apart; empty where that is not known yet."""

    async def judge(self, text: str) -> AttackAssessment:
        """Judge `text`. Raises GuardUnavailableError."""


class ModelState(Protocol):
    """The workers of one model, now."""

    @property
    def workers(self) -> int:
        """Number of workers that can answer."""

    def expected_ttft_s(self, prompt_tokens: int) -> float:
        """Return the seconds until the first token at the fastest worker, its queue included."""


ModelStates = Callable[[str], ModelState | None]
"""By the model's name; None where no worker is known that serves it."""
