"""A text as the rules read it: words in order, stems, which of them carry content."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from radixway.semantics.cache.verifier.lexicon import ALIASES, FILLER, NUMERALS, SYNONYMS
from radixway.semantics.cache.verifier.stems import strip_ending

_CONTRACTIONS = (
    (re.compile(r"\b(can|won|shan)['’]?t\b", re.I), r"\1 not"),
    (
        re.compile(
            r"\b(is|are|was|were|do|does|did|has|have|had|would|could|should|must|need|might)n['’]?t\b", re.I
        ),
        r"\1 not",
    ),
    (re.compile(r"\bcannot\b", re.I), "can not"),
    (re.compile(r"['’](s|re|ve|ll|d|m)\b", re.I), ""),
)
_UNITED_STATES = re.compile(r"\bUS\b(?!\$)")
_WORD = re.compile(r"[^\W_]+(?:[-'’.&+#][^\W_]+)*[+#]*|[$€£¥%°]")
_POLITE = re.compile(
    r"^(?:(?:hi|hello|hey|please|thanks|thank you|ok|okay|so|well|um|also)\b[\s,.!]*)*"
    r"(?:(?:can|could|would|will) (?:you|u|someone|anyone|anybody) (?:please |kindly )?"
    r"(?:(?:tell|show|teach|help|explain|give) (?:to )?me (?:about |to understand |understand )?)?|"
    r"i(?: would|['’]d)? (?:want|like|need|wish) (?:you )?to (?:know|ask|understand|find out|learn) ?|"
    r"(?:please )?(?:tell|show|teach) me |do you know |does (?:anyone|anybody) know |any idea |i wonder |"
    r"i am wondering |(?:please )?help me (?:to )?)?(?:please )?",
    re.I,
)


@dataclass(frozen=True, slots=True)
class ParsedText:
    """One of two texts that are compared."""

    raw: str
    words: tuple[str, ...]
    """In order, lower case, contractions resolved, politeness at the beginning left out."""
    stems: tuple[str, ...]
    """One for each word, synonyms and aliases as one."""
    content: tuple[str, ...]
    """Those stems that are not filler, in order."""
    content_words: tuple[str, ...]
    """The words of `content`."""


@lru_cache(maxsize=4096)
def parse_text(raw: str) -> ParsedText:
    """Read a text; the latest are remembered, because a kept question is compared again and again."""
    text = unicodedata.normalize("NFKC", raw).strip()
    text = _POLITE.sub("", text, count=1) or text
    for pattern, replacement in _CONTRACTIONS:
        text = pattern.sub(replacement, text)
    lower = _UNITED_STATES.sub("usa", text).lower()
    for alias, name in ALIASES:
        lower = alias.sub(name, lower)
    words = tuple(_WORD.findall(lower))
    stems = tuple(stem_word(word) for word in words)
    content = [
        (s, word) for word, s in zip(words, stems, strict=True) if word not in FILLER and s not in FILLER
    ]
    return ParsedText(raw, words, stems, tuple(s for s, _ in content), tuple(word for _, word in content))


@lru_cache(maxsize=16384)
def stem_word(word: str) -> str:
    """A word without its English endings, synonyms under one name. Crude on purpose: only compared with others."""
    if word in NUMERALS:
        return NUMERALS[word]
    return SYNONYMS.get(word) or SYNONYMS.get(plain := strip_ending(word), plain)
