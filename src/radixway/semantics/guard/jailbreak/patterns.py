"""Known wordings of attacks, looked for in linear time (RE2).

All at once would need an automaton that grows with every text (measured: 8 ms for a prompt of 1,500
characters). `re2.Filter` looks for the words that each expression cannot do without, and tries those alone
that have them (0.2 ms). The patterns themselves are data: `bundled/attack_patterns/*.toml`.
"""

import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

import re2

from radixway.bundled import read_toml
from radixway.core.work_slices import run_at_once
from radixway.semantics.guard.jailbreak.attack_reader import Kind
from radixway.semantics.guard.jailbreak.encodings import MAX_PART_CHARS
from radixway.semantics.guard.jailbreak.text_normalization import MAX_VIEWS, NormalizedView, normalized_views
from radixway.semantics.guard.step_executor import Steps
from radixway.semantics.prompts import read_prompt

_MEMORY = 128 << 20
_GAP = r"[^a-z0-9]+"
_GAP_SIGN = " "
_SENTENCE = r"[^.!?。！？\n]*"
_SENTENCE_SIGN = "…"
_FRAGMENT = re.compile(r"\{\{(\w+)\}\}")
_MENTIONED, _QUOTED = 0.7, 0.15
"""Factors for a wording in a text that is plainly about attacks or prompts, so that the encoder decides, and
for one that is quoted where somebody writes about attacks."""


@dataclass(slots=True, frozen=True)
class AttackPattern:
    """A known wording of attacks."""

    name: str
    kind: Kind
    confidence: float
    """Probability that a text with it attacks, in [0, 1]; 0.7 and more is enough by default."""
    source: str
    """RE2, without regard to case. A space stands for what is no Latin letter or digit, `…` for the rest of a
    sentence up to what follows."""
    in_data_only: bool = False
    """Whether it is an attack only in what tools and documents say."""


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
        self._sources = [_expand(pattern.source, squashed) for pattern in patterns]
        self._filter = re2.Filter()
        for source in self._sources:
            self._filter.Add(source, _re2_options())
        self._filter.Compile()

    def find_hits(self, text: str, *, may_quote: bool = True) -> list[PatternHit]:
        """Return a hit for each pattern that stands in `text`.

        `may_quote`: whether one that is quoted by somebody who writes about attacks counts less.
        """
        found = self._filter.Match(text)
        if not found:
            return []
        about = may_quote and _compiled(_benign_context()["may_quote"]).search(text) is not None
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
    """Read the patterns of `bundled/attack_patterns/{name}.toml`, in its order."""
    data = read_toml(f"attack_patterns/{name}.toml")
    fragments = {key: _source(parts, {}) for key, parts in data.get("fragments", {}).items()}
    return tuple(
        AttackPattern(**{**raw, "source": _source(raw["source"], fragments)}) for raw in data["patterns"]
    )


def _source(parts: str | list[str], fragments: Mapping[str, str]) -> str:
    """Join the parts, replacing names of fragments. Raises KeyError for a missing one."""
    return _FRAGMENT.sub(lambda found: fragments[found[1]], "".join(parts))


@cache
def known_patterns() -> tuple[AttackPattern, ...]:
    """Return all patterns that are an attack by themselves."""
    return tuple(pattern for name in ("english", "others", "data") for pattern in load_patterns(name))


@cache
def _benign_context() -> Mapping[str, str]:
    return {key: "".join(parts) for key, parts in read_toml("attack_patterns/benign_context.toml").items()}


@cache
def patterns_for_any_text() -> PatternSet:
    """Return the patterns that are an attack no matter who speaks."""
    return PatternSet([pattern for pattern in known_patterns() if not pattern.in_data_only])


@cache
def patterns_for_data() -> PatternSet:
    """Return the patterns that are an attack only in the output of a tool or in a document."""
    return PatternSet([pattern for pattern in known_patterns() if pattern.in_data_only])


@cache
def patterns_without_spaces() -> PatternSet:
    """Return the patterns that are sure even in texts without spaces between words."""
    sure = [pattern for pattern in known_patterns() if not pattern.in_data_only and pattern.confidence >= 0.8]
    return PatternSet([pattern for pattern in sure if _GAP_SIGN in pattern.source], squashed=True)


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


_REACH = 80


def _is_quoted(text: str, begin: int, end: int) -> bool:
    """Return whether a quotation opens a little before `begin` and closes a little after `end`."""
    before, after = text[max(0, begin - _REACH) : begin], text[end : end + _REACH]
    for opening, closing in zip("\"'“‘«「『`", "\"'”’»」』`", strict=True):
        if opening == closing:
            if before.count(opening) % 2 == 1 and closing in after:
                return True
        elif before.rfind(opening) > before.rfind(closing) and closing in after:
            return True
    return False


_SUSPICIOUS, _SURE = 10, 16
"""Times that a word stands in a row; of 7,000 harmless texts none has the same word eight times."""


def find_repetition(text: str) -> PatternHit | None:
    """Find one word said over and over in `text`, which leads models away from what they were told (Nasr et
    al. 2023). It begins with a letter: rows of numbers, rules and dots are tables.
    """
    words = text.lower().split()
    if len(words) < _SUSPICIOUS or max(Counter(words).values()) < _SUSPICIOUS:
        return None
    longest = max((sum(1 for _ in run) for word, run in groupby(words) if word[0].isalpha()), default=0)
    if longest < _SUSPICIOUS:
        return None
    return PatternHit("repeated_word", "prompt_injection", 0.75 if longest >= _SURE else 0.6)


WINDOW, OVERLAP = 262_144, MAX_PART_CHARS
"""Characters of a window, and those that the next one repeats, so that each encoded part is whole in one."""
_MAX_CACHED_CHARS = 4_096
"""Longest cached view of a window: the encoder reads no longer ones."""
_HIDDEN = 0.05
"""Added to the confidence of a disguised wording."""
_OPEN_VIEWS = frozenset({"plain", "folded", "spacing", "leetspeak"})
"""Views that change harmless texts, too."""


@dataclass(slots=True, frozen=True)
class PatternFindings:
    """The known wordings in a text."""

    hits: Mapping[str, PatternHit]
    """By the pattern's name, with the view's behind an `@` where it is not plain."""
    views: tuple[NormalizedView, ...]

    @property
    def risk(self) -> float:
        """The probability that the text is an attack, as far as wordings tell."""
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
        """The confidence by pattern, in the view in which it is surest."""
        return {name: hit.confidence for name, hit in self._best_hits().items()}

    def _best_hits(self) -> dict[str, PatternHit]:
        best: dict[str, PatternHit] = {}
        for hit in self.hits.values():
            if hit.name not in best or best[hit.name].confidence < hit.confidence:
                best[hit.name] = hit
        return best


def find_patterns(text: str, *, data: bool = False) -> PatternFindings:
    """Find patterns in all views of `text`. `data`: it is what a tool or a document says."""
    return run_at_once(find_patterns_steps(text, data=data))


def find_patterns_steps(text: str, *, data: bool = False) -> Steps[PatternFindings]:
    """Do `find_patterns` in steps, one for each window, so that a long `text` does not block others.

    Of a text of several windows, `views` are the text and the latest short ones, which the encoder reads.
    """
    seen: deque[NormalizedView] = deque(maxlen=MAX_VIEWS)
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
        seen.extend(view for view in here if not several or len(view.text) <= _MAX_CACHED_CHARS)
    plain = {hit.name for name, hit in hits.items() if "@" not in name}
    return PatternFindings(
        {name: hit for name, hit in hits.items() if "@" not in name or hit.name not in plain},
        (NormalizedView("plain", text), *seen) if several else tuple(seen),
    )


def find_pasted_orders_steps(text: str, found: PatternFindings) -> Steps[PatternFindings]:
    """Add to what was `found` in a user's `text` the orders to an assistant in what the user pasted:
    documents, quotations and results are data, whoever pastes them.
    """
    hits = dict(found.hits)
    for part in read_prompt(text).parts:
        if part.kind == "data":
            yield
            for hit in patterns_for_data().find_hits(text[part.start : part.end], may_quote=False):
                hits.setdefault(hit.name, hit)
    return PatternFindings(hits, found.views)


def compile_patterns() -> None:
    """Compile all patterns; otherwise the first text has to wait for it."""
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
MAX_JOINED_CHARS = 4096
"""Characters of the last turns that are judged together."""


def join_last_turns(texts: Sequence[str]) -> str:
    """Join the last of `texts`, up to `MAX_JOINED_CHARS` characters, as if they had been said at once."""
    turns: list[str] = []
    chars_left = MAX_JOINED_CHARS
    for text in reversed(texts[-LAST_TURNS:]):
        if chars_left <= 0:
            break
        turns.append(text[-chars_left:])
        chars_left -= len(text)
    return " ".join(reversed(turns))


def find_build_up(joined: str, texts: Sequence[str]) -> PatternFindings:
    """Find wordings in `joined`, the last of `texts`, and from the third turn on signs of a build-up.

    An attack may be split over turns, or build up step by step (Russinovich et al., Crescendo, 2024).
    """
    found = find_patterns(joined)
    if len(texts) < 3:
        return found
    signs: dict[str, PatternHit] = {hit.name: hit for hit in _patterns_of_build_up().find_hits(joined)}
    return PatternFindings({**found.hits, **signs}, found.views)


@cache
def _patterns_of_build_up() -> PatternSet:
    return PatternSet(load_patterns("build_up"))
