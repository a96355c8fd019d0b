"""Known wordings in every view of a text.

windows of a long one   0 ──────────────── 256 K
                                  224 K ──────────────── 480 K …    each encoded part is whole in one
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from radixway.guard.jailbreak.encodings import LONGEST_PART
from radixway.guard.jailbreak.kinds import Kind
from radixway.guard.jailbreak.normalise import MOST_VIEWS, NormalizedView, normalized_views
from radixway.guard.jailbreak.patterns import (
    PatternHit,
    combine_confidence,
    patterns_for_any_text,
    patterns_for_data,
    patterns_without_spaces,
)
from radixway.guard.jailbreak.repetition import find_repetition
from radixway.guard.threads import Steps, run_steps_inline

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
    """What was found in a text."""

    hits: Mapping[str, PatternHit]
    """By the pattern's name, with the view's behind an `@` where it is not plain."""
    views: tuple[NormalizedView, ...]

    @property
    def risk(self) -> float:
        """That the text is an attack, as far as wordings tell."""
        return combine_confidence(self._best_hits().values())

    @property
    def kinds(self) -> dict[Kind, float]:
        """The same by kind."""
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
    """The same, pausing after every window: a long text lets others pass, and needs no more memory.

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
