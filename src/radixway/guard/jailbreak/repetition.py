"""One word said over and over, which leads models away from what they were told (Nasr et al. 2023)."""

from __future__ import annotations

from collections import Counter
from itertools import groupby

from radixway.guard.jailbreak.patterns import PatternHit

_SUSPICIOUS, _SURE = 10, 16
"""Times in a row; of 7,000 harmless texts none has the same word eight times."""


def find_repetition(text: str) -> PatternHit | None:
    """Words with a letter first only: rows of numbers, rules and dots are tables."""
    words = text.lower().split()
    if len(words) < _SUSPICIOUS or max(Counter(words).values()) < _SUSPICIOUS:
        return None
    longest = max((sum(1 for _ in run) for word, run in groupby(words) if word[0].isalpha()), default=0)
    if longest < _SUSPICIOUS:
        return None
    return PatternHit("repeated_word", "prompt_injection", 0.75 if longest >= _SURE else 0.6)
