"""All wordings that are known."""

from __future__ import annotations

from radixway.guard.jailbreak.patterns import Pattern
from radixway.guard.jailbreak.wordings.data import IN_DATA
from radixway.guard.jailbreak.wordings.english import ENGLISH
from radixway.guard.jailbreak.wordings.others import OTHERS

WORDINGS: tuple[Pattern, ...] = (*ENGLISH, *OTHERS, *IN_DATA)
