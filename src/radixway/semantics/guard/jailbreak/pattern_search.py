"""One word said over and over, which leads models away from what they were told (Nasr et al. 2023).

Known wordings in every view of a text.

windows of a long one   0 ──────────────── 256 K
                                  224 K ──────────────── 480 K …    each encoded part is whole in one

Attacks that several turns of a conversation make together.

One text split over them, or one that builds up step by step (Russinovich et al., Crescendo, 2024).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from radixway.semantics.guard.jailbreak.attack_reader import Kind
from radixway.semantics.guard.jailbreak.encodings import LONGEST_PART
from radixway.semantics.guard.jailbreak.patterns import (
    PatternHit,
    PatternSet,
    combine_confidence,
    load_patterns,
    patterns_for_any_text,
    patterns_for_data,
    patterns_without_spaces,
)
from radixway.semantics.guard.jailbreak.text_normalization import MOST_VIEWS, NormalizedView, normalized_views
from radixway.semantics.guard.step_executor import Steps, run_steps_inline

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


WINDOW = 262_144
"""Characters that are looked at together."""
OVERLAP = LONGEST_PART
_KEPT = 4_096
"""Characters up to which a view of one of several windows is kept: the encoder reads no longer ones."""
_HIDDEN = 0.05
"""How much surer a wording makes one that somebody disguised."""
_OPEN_VIEWS = frozenset({"plain", "folded", "spacing", "leetspeak"})
"""Views that change harmless texts, too."""


@dataclass(slots=True, frozen=True)
class PatternFindings:
    """Known wordings that were found in a text."""

    hits: Mapping[str, PatternHit]
    """By the pattern's name, with the view's behind an `@` where it is not plain."""
    views: tuple[NormalizedView, ...]

    @property
    def risk(self) -> float:
        """That the text is an attack, as far as wordings tell."""
        return combine_confidence(self._best_hits().values())

    @property
    def kinds(self) -> dict[Kind, float]:
        """Return the risk for each kind of attack."""
        best = self._best_hits().values()
        return {
            kind: combine_confidence(hit for hit in best if hit.kind == kind)
            for kind in {h.kind for h in best}
        }

    @property
    def confidences(self) -> dict[str, float]:
        """By pattern, in whichever view it is surest."""
        return {name: hit.confidence for name, hit in self._best_hits().items()}

    def _best_hits(self) -> dict[str, PatternHit]:
        best: dict[str, PatternHit] = {}
        for hit in self.hits.values():
            if hit.name not in best or best[hit.name].confidence < hit.confidence:
                best[hit.name] = hit
        return best


def find_patterns(text: str, *, data: bool = False) -> PatternFindings:
    """Look at all views. `data`: the text is what a tool or a document says."""
    return run_steps_inline(find_patterns_steps(text, data=data))


def find_patterns_steps(text: str, *, data: bool = False) -> Steps[PatternFindings]:
    """Do `find_patterns` in steps, one for each window, so that a long `text` does not block others.

    Of a text of several windows, `views` are the text and the latest short ones, which the encoder reads.
    """
    seen: deque[NormalizedView] = deque(maxlen=MOST_VIEWS)
    hits: dict[str, PatternHit] = {}
    several = len(text) > WINDOW
    for begin in range(0, max(len(text) - OVERLAP, 1), WINDOW - OVERLAP):
        if begin:
            yield
        window = text[begin : begin + WINDOW] if several else text
        here = normalized_views(window)
        for name, hit in _hits_in_window(window, here, data):
            if name not in hits or hits[name].confidence < hit.confidence:
                hits[name] = hit
        seen.extend(view for view in here if not several or len(view.text) <= _KEPT)
    plain = {hit.name for name, hit in hits.items() if "@" not in name}
    return PatternFindings(
        {name: hit for name, hit in hits.items() if "@" not in name or hit.name not in plain},
        (NormalizedView("plain", text), *seen) if several else tuple(seen),
    )


def compile_patterns() -> None:
    """Compile what is looked for; otherwise the first text has to wait for it."""
    for patterns in (patterns_for_any_text(), patterns_for_data(), patterns_without_spaces()):
        patterns.find_hits("")
    normalized_views("")


def _hits_in_window(
    text: str, seen: Iterable[NormalizedView], data: bool
) -> Iterator[tuple[str, PatternHit]]:
    for view in seen:
        for hit in _hits_in_view(view, data):
            yield hit.name if view.how == "plain" else f"{hit.name}@{view.how}", hit
    if repeated := find_repetition(text):
        yield repeated.name, repeated


def _hits_in_view(view: NormalizedView, data: bool) -> Iterable[PatternHit]:
    if view.is_squashed:
        yield from patterns_without_spaces().find_hits(view.text)
        return
    found = patterns_for_any_text().find_hits(view.text, may_quote=not data)
    if data:
        found += patterns_for_data().find_hits(view.text, may_quote=False)
    for hit in found:
        sure = hit.confidence if view.how in _OPEN_VIEWS else min(0.99, hit.confidence + _HIDDEN)
        yield PatternHit(hit.name, hit.kind, sure)


LAST_TURNS = 4
LONGEST = 4096
"""Characters of the last turns that are judged together."""


def join_last_turns(texts: Sequence[str]) -> str:
    """Join the last of `texts`, up to `LONGEST` characters, as if they had been said at once."""
    kept: list[str] = []
    room = LONGEST
    for text in reversed(texts[-LAST_TURNS:]):
        if room <= 0:
            break
        kept.append(text[-room:])
        room -= len(text)
    return " ".join(reversed(kept))


def find_build_up(joined: str, texts: Sequence[str]) -> PatternFindings:
    """Find wordings in `joined`, the last of `texts`, and from the third turn on signs of a build-up."""
    found = find_patterns(joined)
    if len(texts) < 3:
        return found
    signs: dict[str, PatternHit] = {hit.name: hit for hit in _build_up().find_hits(joined)}
    return PatternFindings({**found.hits, **signs}, found.views)


@cache
def _build_up() -> PatternSet:
    return PatternSet(load_patterns("build_up"))
