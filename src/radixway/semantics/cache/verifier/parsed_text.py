"""A text as the rules read it: words in order, stems, content; and what content two texts do not share."""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from radixway.semantics.cache.verifier.lexicon import ALIASES, FILLER, NUMERALS, SYNONYMS, strip_ending

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
    """A text to be compared."""

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


@dataclass(frozen=True, slots=True)
class ResidualWords:
    """Content that the texts share and do not share, in weights of words (`weight`)."""

    shared: float
    only_one: float
    only_other: float

    @property
    def unmatched(self) -> float:
        """Share of all content that only one text has, 0 to 1."""
        total = 2 * self.shared + self.only_one + self.only_other
        return (self.only_one + self.only_other) / total if total else 0.0


def compare_content(one: ParsedText, other: ParsedText) -> ResidualWords:
    """Compare the content of two texts as sets of stems; near spellings count as the same word."""
    mine, theirs = dict.fromkeys(one.content), dict.fromkeys(other.content)
    only_one = [stem for stem in mine if stem not in theirs]
    only_other = [stem for stem in theirs if stem not in mine]
    shared = sum(word_weight(stem) for stem in mine if stem in theirs)
    for stem in list(only_one):
        near = next((candidate for candidate in only_other if is_spelt_alike(stem, candidate)), None)
        if near is not None:
            only_one.remove(stem)
            only_other.remove(near)
            shared += word_weight(stem)
    joined_one, joined_other = "".join(one.words), "".join(other.words)
    only_one = [stem for stem in only_one if not (len(stem) > 3 and stem in joined_other)]
    only_other = [stem for stem in only_other if not (len(stem) > 3 and stem in joined_one)]
    return ResidualWords(shared, sum(map(word_weight, only_one)), sum(map(word_weight, only_other)))


def word_weight(stem: str) -> float:
    """Return how much a word tells: short ones less."""
    return 1.0 if len(stem) > 3 else 0.8


@lru_cache(maxsize=8192)
def is_spelt_alike(one: str, other: str) -> bool:
    """Return whether two words are of one root (`invest`, `investor`), or, from five letters, one slip apart."""
    short, long = sorted((strip_ending(one), strip_ending(other)), key=len)
    if len(short) < 4 or not (short.isalpha() and long.isalpha()):
        return False
    if long.startswith(short) and len(long) - len(short) <= 3:
        return True
    return (
        len(short) >= 5 and len(long) - len(short) <= 1 and short[0] == long[0] and _is_one_edit(short, long)
    )


def _is_one_edit(short: str, long: str) -> bool:
    at = next((i for i, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :]
    swapped = short[at + 1 : at + 2] + short[at : at + 1] + short[at + 2 :]
    return short[at + 1 :] == long[at + 1 :] or swapped == long[at:]
