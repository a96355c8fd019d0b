"""Attacks that several turns of a conversation make together.

One text split over them, or one that builds up step by step (Russinovich et al., Crescendo, 2024).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from radixway.guard.jailbreak.finding import PatternFindings, find_patterns
from radixway.guard.jailbreak.patterns import PatternHit, PatternSet, load_patterns

LAST_TURNS = 4
LONGEST = 4096
"""Characters of the last turns that are judged together."""


def join_last_turns(texts: Sequence[str]) -> str:
    """The last ones, as many as fit, joined as if they had been said at once."""
    kept: list[str] = []
    room = LONGEST
    for text in reversed(texts[-LAST_TURNS:]):
        if room <= 0:
            break
        kept.append(text[-room:])
        room -= len(text)
    return " ".join(reversed(kept))


def find_build_up(joined: str, texts: Sequence[str]) -> PatternFindings:
    """Wordings across the turns' borders, and, from the third turn on, signs that turns lead somewhere."""
    found = find_patterns(joined)
    if len(texts) < 3:
        return found
    signs: dict[str, PatternHit] = {hit.name: hit for hit in _build_up().find_hits(joined)}
    return PatternFindings({**found.hits, **signs}, found.views)


@cache
def _build_up() -> PatternSet:
    return PatternSet(load_patterns("build_up"))
