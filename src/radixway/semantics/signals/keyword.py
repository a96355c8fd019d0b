"""Keywords: thousands of words and phrases in one pass, regular expressions in linear time, misspellings.

Patterns of the whole conversation: secrets, personal numbers, structured data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import ahocorasick_rs
import re2
from rapidfuzz import fuzz, process

from radixway.core.config import ConfigError
from radixway.core.config.semantic import KeywordSignalConfig, RegexSignalConfig
from radixway.semantics.signals.base import SignalValue
from radixway.semantics.signals.text_normalization import is_unspaced, is_word_char, normalize_text

if TYPE_CHECKING:
    from radixway.semantics.encoders import TextEncoding
    from radixway.semantics.signals.question import RequestQuestion

_MAX_FUZZY_CHARS = 20_000
"""Characters of a prompt that are searched for misspelt words."""

Hit = tuple[int, int]
"""Index of the rule, and of its keyword."""


class KeywordDetector:
    """Evaluates all keyword rules. The time is linear in the prompt, however many exact words there are."""

    kind = "keyword"
    needs_encoding = False

    def __init__(
        self,
        rules: Sequence[KeywordSignalConfig],
        categories: Iterable[str] = (),
        *,
        reads_message: bool = False,
    ) -> None:
        """`categories`: rules of these names speak for them. `reads_message`: all of the user's message is
        searched, not the ask alone: where a rule blocks by words, which an attacker may put anywhere.

        Raises ConfigError for a bad pattern.
        """
        self._reads_message = reads_message
        self._rules = tuple(rules)
        self._categories = frozenset(categories)
        self._exact = [
            KeywordAutomaton([*_iter_keywords(rules, "exact", sensitive)], case_sensitive=sensitive)
            for sensitive in (False, True)
        ]
        self._patterns = [
            KeywordPatterns([*_iter_keywords(rules, "regex", sensitive)], case_sensitive=sensitive)
            for sensitive in (False, True)
        ]
        self._fuzzy = [(index, rule) for index, rule in enumerate(rules) if rule.method == "fuzzy"]

    def detect_signals(
        self, question: RequestQuestion, encoding: TextEncoding | None = None
    ) -> Iterator[SignalValue]:
        """Yield the rules that match."""
        text = normalize_text((self._reads_message and question.message) or question.text)
        found: dict[int, set[int]] = {}
        groups: list[KeywordAutomaton | KeywordPatterns] = [*self._exact, *self._patterns]
        for group in groups:
            for index, keyword in group.find_hits(text):
                found.setdefault(index, set()).add(keyword)
        for index, rule in self._fuzzy:
            found[index] = set(_fuzzy_hits(rule, text[:_MAX_FUZZY_CHARS]))
        for index, rule in enumerate(self._rules):
            confidence = _rule_confidence(rule, len(found.get(index, ())))
            if confidence:
                category = rule.name if rule.name in self._categories else None
                yield SignalValue("keyword", rule.name, True, True, confidence, category)


class RegexDetector:
    """RE2 patterns, searched in every message: what must not pass may stand in an earlier turn."""

    kind = "regex"
    needs_encoding = False

    def __init__(self, rules: Sequence[RegexSignalConfig]) -> None:
        """Raises ConfigError for a bad pattern."""
        self._rules = tuple(rules)
        self._sets = [
            KeywordPatterns(
                [((i, 0), rule.pattern) for i, rule in enumerate(rules) if rule.case_sensitive == sensitive],
                case_sensitive=sensitive,
            )
            for sensitive in (False, True)
        ]

    def detect_signals(
        self, question: RequestQuestion, encoding: TextEncoding | None = None
    ) -> Iterator[SignalValue]:
        """Yield the patterns that match."""
        text = normalize_text(question.whole or question.text)
        for group in self._sets:
            for rule, _ in group.find_hits(text):
                yield SignalValue("regex", self._rules[rule].name, True)


class KeywordAutomaton:
    """Exact words and phrases, found by one Aho-Corasick automaton.

    A word of a spaced script counts where it stands alone: `pod` is not in `podium`. Chinese needs no bounds.
    """

    def __init__(self, keywords: Sequence[tuple[Hit, str]], *, case_sensitive: bool) -> None:
        self._fold = not case_sensitive
        by_text: dict[str, list[Hit]] = {}
        for hit, keyword in keywords:
            by_text.setdefault(self._fold_case(normalize_text(keyword)), []).append(hit)
        by_text.pop("", None)
        self._texts = list(by_text)
        self._hits = list(by_text.values())
        self._automaton = ahocorasick_rs.AhoCorasick(self._texts) if self._texts else None

    def find_hits(self, text: str) -> Iterator[Hit]:
        """Yield the keywords in `text`, normalised; one may come more than once."""
        if self._automaton is None:
            return
        text = self._fold_case(text)
        for index, start, end in self._automaton.find_matches_as_indexes(text, overlapping=True):
            if _stands_alone(text, start, end):
                yield from self._hits[index]

    def _fold_case(self, text: str) -> str:
        return text.casefold() if self._fold else text


class KeywordPatterns:
    """RE2 patterns, all matched in one pass, in time linear in the text."""

    def __init__(self, keywords: Sequence[tuple[Hit, str]], *, case_sensitive: bool) -> None:
        options = re2.Options()
        options.case_sensitive = case_sensitive
        options.log_errors = False
        self._hits = [hit for hit, _ in keywords]
        self._set: Any = None
        if not keywords:
            return
        self._set = re2.Set.SearchSet(options)
        for _, pattern in keywords:
            try:
                self._set.Add(pattern)
            except re2.error as error:
                reason = error.args[0] if error.args else error
                what = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
                raise ConfigError(f"semantic: the pattern {pattern!r} is not one of RE2's: {what}") from None
        self._set.Compile()

    def find_hits(self, text: str) -> Iterator[Hit]:
        """Yield the patterns that match somewhere in `text`."""
        for index in (self._set.Match(text) or ()) if self._set is not None else ():
            yield self._hits[index]


def _iter_keywords(
    rules: Sequence[KeywordSignalConfig], method: str, case_sensitive: bool
) -> Iterator[tuple[Hit, str]]:
    for index, rule in enumerate(rules):
        if rule.method == method and rule.case_sensitive == case_sensitive:
            for number, keyword in enumerate(rule.keywords):
                yield (index, number), keyword


def _stands_alone(text: str, start: int, end: int) -> bool:
    if start > 0 and is_word_char(text[start]) and is_word_char(text[start - 1]):
        return False
    return not (end < len(text) and is_word_char(text[end - 1]) and is_word_char(text[end]))


def _fuzzy_hits(rule: KeywordSignalConfig, text: str) -> Iterator[int]:
    """Return keywords that something in the text nearly spells."""
    if not rule.case_sensitive:
        text = text.casefold()
    words = text.split(" ")
    for number, given in enumerate(rule.keywords):
        keyword = normalize_text(given)
        if not rule.case_sensitive:
            keyword = keyword.casefold()
        if is_unspaced(keyword):
            if len(text) >= len(keyword) and fuzz.partial_ratio(
                keyword, text, score_cutoff=rule.fuzzy_threshold
            ):
                yield number
            continue
        length = keyword.count(" ") + 1
        runs = {" ".join(words[at : at + length]).strip(".,;:!?()'\"") for at in range(len(words))}
        if process.extractOne(keyword, runs, scorer=fuzz.ratio, score_cutoff=rule.fuzzy_threshold):
            yield number


def _rule_confidence(rule: KeywordSignalConfig, found: int) -> float:
    """How sure a rule is with so many different keywords found: 0 where it does not match.

    Of any-of rules one keyword may be chance: 2/3 for one, 0.8 for two, as in the published example, 0.86 for
    three. All or none of them leave nothing open.
    """
    if rule.operator == "AND":
        return 1.0 if found == len(rule.keywords) else 0.0
    if rule.operator in ("NOT", "NOR"):
        return 0.0 if found else 1.0
    return found / (found + 0.5)
