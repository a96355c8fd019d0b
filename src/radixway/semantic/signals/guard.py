"""Where the guard's findings come in as signals: attacks on the prompt, personal data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from radixway.semantic.question import Question
from radixway.semantic.signals.base import Signal

GUARD_KINDS = ("jailbreak", "pii")


class GuardHook(Protocol):
    """Reads the kinds of `GUARD_KINDS`. Without one, conditions on them do not hold."""

    async def __call__(self, question: Question) -> Mapping[str, Sequence[Signal]]:
        """Findings by kind; rules name them by what is found (`prompt_injection`, `EMAIL_ADDRESS`)."""
        ...
