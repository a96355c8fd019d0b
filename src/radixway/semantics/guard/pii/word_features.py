"""The words of a text, and the features of a word that show without reading the others.

MiniLM reads lower case and nothing else of a word's form: whether it is written large, has digits, stands at
the beginning of a line, or is known as a name, must be told to the head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.encoders.base import Floats, Ints
from radixway.semantics.guard.pii.gazetteers import WordGazetteer, read_list, word_kinds

_SHAPES = ("capitalised", "upper", "initial", "lower", "mixed", "number", "alphanumeric")
_DIGITS = ("1 digit", "2 digits", "3 digits", "4 digits", "5 digits", "more digits")
_MARKS = (".", ",", "'", "-", "/", ":", "@", "#", "(", ")", '"', "&", "other mark")
_PLACES = ("space before", "line before", "line after", "sentence before")
_LENGTHS = ("short", "longer", "long")
_PIECES = ("2 pieces", "more pieces")
_TEXTS = ("text has no capitals", "text is upper case")
_KNOWN = (
    *("first name", "surname", "place", "place of several words", "nrp", "eponym"),
    *("month", "weekday", "street", "flat", "company", "honorific", "state", "age", "time"),
)
FEATURES = (*_SHAPES, *_DIGITS, *_MARKS, *_PLACES, *_LENGTHS, *_PIECES, *_TEXTS, *_KNOWN)
"""Each is there or not, in the order of the bits."""

BIT = {name: 1 << at for at, name in enumerate(FEATURES)}
GAZETTEER_BITS = sum(BIT[name] for name in _KNOWN[:5])
"""Bits of name and place lists: training drops them at times, since no list is complete."""

_MARK_BITS = {mark: BIT[mark] for mark in _MARKS[:-1]} | {
    "’": BIT["'"],
    "‘": BIT["'"],
    "–": BIT["-"],
    "“": BIT['"'],
    "”": BIT['"'],
}
_DIGIT_BITS = [0, *(BIT[name] for name in _DIGITS)]
_TWO_PIECES, _MORE_PIECES = BIT["2 pieces"], BIT["more pieces"]
_SPACE_BEFORE, _SENTENCE_BEFORE = BIT["space before"], BIT["sentence before"]
_LINE_BEFORE, _LINE_AFTER = BIT["line before"], BIT["line after"]
_LOWER = [0] + [
    BIT["lower"] | BIT["short" if size < 3 else "longer" if size < 7 else "long"] for size in range(1, 8)
]
"""Bits of lower-case words by length."""
_SENTENCE_ENDS = frozenset(".!?:;\n。！？")


@dataclass(slots=True, frozen=True)
class WordSpans:
    """A text's words, in order."""

    starts: NDArray[np.int64]
    """[words]: each one's first piece."""
    begin: Ints
    """[words], in characters."""
    end: Ints
    """[words]"""

    def __len__(self) -> int:
        return len(self.starts)

    def slice_words(self, begin: int, end: int) -> WordSpans:
        """Return the words from `begin` to `end`; pieces are counted from the first one's."""
        starts = self.starts[begin:end]
        return WordSpans(starts - starts[0], self.begin[begin:end], self.end[begin:end])

    def pool_states(self, states: Floats) -> Floats:
        """Return [words, …], the mean over each word's pieces. `states`: [pieces, …]."""
        if len(self.starts) == len(states):
            return states
        counts = np.append(self.starts[1:], len(states)) - self.starts
        pooled: Floats = states[self.starts]
        for piece in range(1, int(counts.max())):
            longer = np.flatnonzero(counts > piece)
            pooled[longer] += states[self.starts[longer] + piece]
        pooled /= counts[:, None].astype(np.float32)
        return pooled


def split_words(text: str, offsets: Ints) -> WordSpans:
    """Join the pieces at `offsets` to words: letters and digits without a gap, or one Chinese character."""
    if not len(offsets):
        nothing = np.zeros(0, np.int32)
        return WordSpans(np.zeros(0, np.int64), nothing, nothing)
    begins, ends = offsets[:, 0], offsets[:, 1]
    new = np.ones(len(offsets), bool)
    for at in (np.flatnonzero(begins[1:] == ends[:-1]) + 1).tolist():
        before, after = text[begins[at] - 1], text[begins[at]]
        new[at] = not (_in_word(before) and _in_word(after))
    starts = np.flatnonzero(new)
    return WordSpans(starts, begins[starts], ends[np.append(starts[1:], len(offsets)) - 1])


def word_bits(text: str, words: WordSpans, pieces: int) -> NDArray[np.int64]:
    """Return [words], the sum of each one's `FEATURES`. `pieces`: how many word pieces the text has."""
    known = word_gazetteer()
    counts = (np.append(words.starts[1:], pieces) - words.starts).tolist()
    begins, ends = words.begin.tolist(), words.end.tolist()
    lowered: list[str] = []
    bits: list[int] = []
    last_end, after_sentence = -1, True
    for begin, end, count in zip(begins, ends, counts, strict=True):
        word = text[begin:end]
        if word.islower() and word.isalpha():  # most words: shortest way
            low, found = word, _LOWER[min(len(word), 7)]
        else:
            low, found = word.lower(), _shape(word)
        found |= known.bits.get(low, 0)
        if count > 1:
            found |= _TWO_PIECES if count == 2 else _MORE_PIECES
        if begin != last_end:
            found |= _SPACE_BEFORE
            if not bits or "\n" in text[last_end:begin]:
                found |= _LINE_BEFORE
                if bits:
                    bits[-1] |= _LINE_AFTER
        if after_sentence:
            found |= _SENTENCE_BEFORE
        after_sentence = word in _SENTENCE_ENDS
        bits.append(found)
        lowered.append(low)
        last_end = end
    _mark_phrases(lowered, bits, known)
    return np.array(bits, np.int64) | _text_bits(text[begins[0] : last_end])


@cache
def word_gazetteer() -> WordGazetteer:
    """Return all lists that words are looked up in; read with the first text."""
    lists = {
        BIT["first name"]: read_list("first_names"),
        BIT["surname"]: read_list("last_names"),
        BIT["place"]: read_list("places"),
        BIT["nrp"]: _with_plurals(),
        BIT["eponym"]: read_list("eponyms"),
    }
    lists |= {BIT[name]: iter(words) for name, words in word_kinds("en")}
    return WordGazetteer.from_lists(lists)


def _with_plurals() -> Iterator[str]:
    for entry in chain(read_list("nrp"), read_list("groups")):
        yield entry
        if entry.isascii():
            yield entry + "s"


def _in_word(character: str) -> bool:
    return character.isalnum() and not "\u2e80" <= character <= "\u9fff"


def _shape(word: str) -> int:
    if word.isdigit():
        return BIT["number"] | _DIGIT_BITS[min(len(word), 6)]
    if not word or not word[0].isalnum():
        return _MARK_BITS.get(word, BIT["other mark"])
    length = BIT["short"] if len(word) < 3 else BIT["longer"] if len(word) < 7 else BIT["long"]
    if word.islower():
        return length | BIT["lower"]
    if not word.isalpha():
        return length | BIT["alphanumeric"]
    if word.isupper():
        return length | (BIT["initial"] if len(word) == 1 else BIT["upper"])
    if word[0].isupper() and word[1:].islower():
        return length | BIT["capitalised"]
    return length | BIT["mixed"]


def _mark_phrases(lowered: list[str], bits: list[int], known: WordGazetteer) -> None:
    for at in [at for at, low in enumerate(lowered) if low in known.phrases]:
        for rest, bit in known.phrases[lowered[at]]:
            if tuple(lowered[at + 1 : at + 1 + len(rest)]) == rest:
                marked = BIT["place of several words"] if bit == BIT["place"] else bit
                for each in range(at, at + 1 + len(rest)):
                    bits[each] |= marked
                break


def _text_bits(text: str) -> int:
    if text == text.lower():
        return BIT["text has no capitals"]
    return BIT["text is upper case"] if text == text.upper() else 0
