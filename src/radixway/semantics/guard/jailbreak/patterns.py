"""Known wordings of attacks, looked for in linear time (RE2).

All at once would need an automaton that grows with every text (measured: 8 ms for a prompt of 1,500
characters). `EntryFilter` looks for the words that each expression cannot do without, and tries those alone
that have them (0.2 ms). The patterns themselves are data: `bundled/attack_patterns/*.toml`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import re2

from radixway.bundled import read_toml
from radixway.semantics.guard.jailbreak.attack_reader import Kind

_MEMORY = 128 << 20
_GAP = r"[^a-z0-9]+"
_GAP_SIGN = " "
_SENTENCE = r"[^.!?。！？\n]*"
_SENTENCE_SIGN = "…"
_FRAGMENT = re.compile(r"\{\{(\w+)\}\}")
_MENTIONED = 0.7
"""What one counts, quoted or not, where the text is plainly about attacks or about somebody's prompts: the
encoder decides."""
_QUOTED = 0.15
"""What a wording counts that is quoted where somebody writes about attacks."""


@dataclass(slots=True, frozen=True)
class AttackPattern:
    """One wording."""

    name: str
    kind: Kind
    confidence: float
    """How sure it alone makes one that a text attacks, in [0, 1]; .7 and more is enough by default."""
    source: str
    """RE2, without regard to case. A space stands for what is no Latin letter or digit, `…` for the rest of a
    sentence up to what follows."""
    in_data_only: bool = False
    """Whether it is harmless from whoever asks, and an attack only in what tools and documents say."""


@dataclass(slots=True, frozen=True)
class PatternHit:
    """A pattern that was found."""

    name: str
    kind: Kind
    confidence: float


class PatternSet:
    """Patterns compiled together. Safe to use from several threads."""

    def __init__(self, patterns: Sequence[AttackPattern], *, squashed: bool = False) -> None:
        """`squashed`: for texts whose words stand without anything between them."""
        self.patterns = tuple(patterns)
        self._sources = [_expand(each.source, squashed) for each in patterns]
        self._filter = re2.Filter()
        for source in self._sources:
            self._filter.Add(source, _re2_options())
        self._filter.Compile()

    def find_hits(self, text: str, *, may_quote: bool = True) -> list[PatternHit]:
        """Each pattern that stands in the text, once.

        `may_quote`: whether one that is quoted by somebody who writes about attacks counts less.
        """
        found = self._filter.Match(text)
        if not found:
            return []
        about = may_quote and _writes_about_attacks(text)
        return [self._match_pattern(index, text, about) for index in sorted(found)]

    def _match_pattern(self, index: int, text: str, about: bool) -> PatternHit:
        pattern = self.patterns[index]
        confidence = pattern.confidence
        if about and _compiled(_expand(_benign_context()["is_about"], squashed=False)).search(text):
            confidence *= _MENTIONED
        if about and all(
            _is_quoted(text, *found.span()) for found in _compiled(self._sources[index]).finditer(text)
        ):
            confidence *= _QUOTED
        return PatternHit(pattern.name, pattern.kind, confidence)


def combine_confidence(hits: Iterable[PatternHit]) -> float:
    """Combine the confidences of `hits`: the probability that not all are mistaken (noisy or)."""
    mistaken = 1.0
    for hit in hits:
        mistaken *= 1 - hit.confidence
    return 1 - mistaken


def load_patterns(name: str) -> tuple[AttackPattern, ...]:
    """Read `bundled/attack_patterns/NAME.toml`, in its order."""
    data = read_toml(f"attack_patterns/{name}.toml")
    fragments = {key: _source(parts, {}) for key, parts in data.get("fragments", {}).items()}
    return tuple(
        AttackPattern(**{**each, "source": _source(each["source"], fragments)}) for each in data["patterns"]
    )


def _source(parts: str | list[str], fragments: Mapping[str, str]) -> str:
    """Join the parts and put fragments in place of their names. Raises KeyError for a fragment not there."""
    return _FRAGMENT.sub(lambda found: fragments[found[1]], "".join(parts))


@cache
def known_patterns() -> tuple[AttackPattern, ...]:
    """Every single wording that is an attack."""
    return tuple(each for name in ("english", "others", "data") for each in load_patterns(name))


@cache
def _benign_context() -> Mapping[str, str]:
    return {key: "".join(parts) for key, parts in read_toml("attack_patterns/benign_context.toml").items()}


@cache
def patterns_for_any_text() -> PatternSet:
    """Patterns that are an attack no matter who speaks."""
    return PatternSet([each for each in known_patterns() if not each.in_data_only])


@cache
def patterns_for_data() -> PatternSet:
    """Patterns that are an attack only in the output of a tool or in a document."""
    return PatternSet([each for each in known_patterns() if each.in_data_only])


@cache
def patterns_without_spaces() -> PatternSet:
    """Patterns for texts without spaces between words: only those that are sure even there."""
    sure = [each for each in known_patterns() if not each.in_data_only and each.confidence >= 0.8]
    return PatternSet([each for each in sure if _GAP_SIGN in each.source], squashed=True)


def _expand(source: str, squashed: bool) -> str:
    source = source.replace(_SENTENCE_SIGN, _SENTENCE)
    return source.replace(r"\b", "").replace(_GAP_SIGN, "") if squashed else source.replace(_GAP_SIGN, _GAP)


def _re2_options() -> re2.Options:
    options = re2.Options()
    options.case_sensitive = False
    options.log_errors = False
    options.max_mem = _MEMORY
    return options


@cache
def _compiled(source: str) -> re2._Regexp:
    return re2.compile(source, _re2_options())


def _writes_about_attacks(text: str) -> bool:
    return _compiled(_benign_context()["may_quote"]).search(text) is not None


_REACH = 80


def _is_quoted(text: str, begin: int, end: int) -> bool:
    """Whether a quotation opens a little before and closes a little after, with nothing of it in between."""
    before, after = text[max(0, begin - _REACH) : begin], text[end : end + _REACH]
    for opening, closing in zip("\"'“‘«「『`", "\"'”’»」』`", strict=True):
        if opening == closing:
            if before.count(opening) % 2 == 1 and closing in after:
                return True
        elif before.rfind(opening) > before.rfind(closing) and closing in after:
            return True
    return False
