"""All wordings that are known."""

from __future__ import annotations

from radixway.guard.jailbreak.patterns import Pattern
from radixway.guard.jailbreak.wordings_in_data import IN_DATA
from radixway.guard.jailbreak.wordings_in_english import ENGLISH
from radixway.guard.jailbreak.wordings_in_others import OTHERS

WORDINGS: tuple[Pattern, ...] = (*ENGLISH, *OTHERS, *IN_DATA)
