"""The system prompt in an answer: in a row, in large part, or in base64 or hexadecimal digits.

Both texts are taken as letters alone, so that case, spacing, points, numbering, markup and look-alikes hide
nothing; the prompt is looked for forwards, backwards and in rot13. An index of n-grams finds where a run may
begin, and then it is followed letter by letter: a step per letter, whatever the prompt's length.
"""

import base64
import codecs
import re
import unicodedata
from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate

from radixway.core.config.guard import SystemPromptConfig
from radixway.semantics.guard.answers.text_view import TextEdit, TextJudge, TextView
from radixway.semantics.guard.jailbreak.spelling_folds import LOOKALIKES, TAG_FIRST, TAG_LAST

_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_TAGS = 0xE0000
"""Offset of invisible tag characters from those that they stand for."""

_WORD, _CHARACTER = 3, 2
"""Weights of a word, and of a Chinese, Japanese or Korean character, which is less than a word of its own."""


@lru_cache(8192)
def fold_letter(char: str) -> str:
    """Return the letters of `char`: one, none, or those that it is composed of, without accents."""
    if char.isascii():
        return char.lower() if char.isalpha() else ""
    if TAG_FIRST <= ord(char) <= TAG_LAST:
        return fold_letter(chr(ord(char) - _TAGS))
    plain = unicodedata.normalize("NFKD", char.translate(LOOKALIKES)).casefold().translate(LOOKALIKES)
    return "".join(filter(str.isalpha, plain.casefold()))


def weigh_letters(text: str) -> tuple[str, list[int]]:
    """Return the letters of `text`, and the weight of each: words weigh where they begin."""
    letters: list[str] = []
    weights: list[int] = []
    inside = False
    for char in text:
        found = fold_letter(char)
        if not found:
            inside = False
            continue
        is_cjk = _CJK.match(char) is not None
        letters += found
        weights += [_CHARACTER if is_cjk else 0 if inside else _WORD, *[0] * (len(found) - 1)]
        inside = not is_cjk
    return "".join(letters), weights


N = 8
"""Letters of the n-grams."""
_MAX_RUNS = 8
"""Places followed at a time; of a more frequent n-gram, the first ones."""
_MAX_SECRET_CHARS = 65_536
"""Characters of a secret that are indexed."""


class SecretIndex:
    """Index of a text that is not to be told."""

    def __init__(self, secret: str) -> None:
        letters, weights = weigh_letters(secret[:_MAX_SECRET_CHARS])
        self.length = len(letters)
        self.weight = sum(weights)
        self.text = "\0".join((letters, letters[::-1], codecs.encode(letters, "rot13")))
        self._sums = [0, *accumulate([*weights, 0, *reversed(weights), 0, *weights])]
        self._ends: dict[str, list[int]] = {}
        for at in range(len(self.text) - N + 1):
            gram = self.text[at : at + N]
            if "\0" not in gram:
                ends = self._ends.setdefault(gram, [])
                if len(ends) < _MAX_RUNS:
                    ends.append(at + N)

    def shared_ngrams(self, texts: Iterable[str]) -> frozenset[str]:
        """Return the n-grams that it has in common with `texts`."""
        return frozenset(
            gram
            for letters in map(_extract_letters, texts)
            for at in range(len(letters) - N + 1)
            if (gram := letters[at : at + N]) in self._ends
        )

    def find_ngram(self, gram: str) -> list[int]:
        """Return the places behind `gram`, wherever it occurs."""
        return self._ends.get(gram, [])

    def weight_of(self, end: int, length: int) -> int:
        """Return the weight of the run of `length` letters that ends at `end`."""
        return self._sums[end] - self._sums[end - length]


def _extract_letters(text: str) -> str:
    return "".join(map(fold_letter, text))


def secret_index(secret: str) -> SecretIndex:
    """Return the index of `secret`; many requests have the same system prompt."""
    return _cached_index(secret[:_MAX_SECRET_CHARS])


_cached_index = lru_cache(64)(SecretIndex)
"""Keyed by the part of the secret that is read, so that long prompts are not kept whole."""


class SecretOverlap:
    """Runs that a text, which grows letter by letter, has in common with a secret one."""

    def __init__(self, index: SecretIndex, known: frozenset[str] = frozenset()) -> None:
        """`known`: n-grams that the client has anyway, which give nothing away; no run goes through one."""
        self._index = index
        self._known = known
        self._tail = ""
        self._runs: list[tuple[int, int]] = []
        """Position in the index and length of each run, longest first."""
        self._covered = bytearray(len(index.text))
        self.covered = 0
        """Letters of the secret that have been told, in runs of at least N, each way of telling counted."""

    @property
    def length(self) -> int:
        """Letters of the longest run that the text ends with."""
        return self._runs[0][1] if self._runs else 0

    @property
    def weight(self) -> int:
        """Weight of that run."""
        return self._index.weight_of(*self._runs[0]) if self._runs else 0

    def add_letter(self, letter: str) -> None:
        """Add `letter` to the text."""
        self._tail = (self._tail + letter)[-N:]
        if self._tail in self._known:
            self._runs = []
            return
        if self._runs:
            text = self._index.text
            self._runs = [
                (end + 1, length + 1) for end, length in self._runs if end < len(text) and text[end] == letter
            ]
        if self._runs:
            self._mark_covered(self._runs[0][0] - 1)
            return
        self._runs = [(end, N) for end in self._index.find_ngram(self._tail)]
        if self._runs:
            for at in range(self._runs[0][0] - N, self._runs[0][0]):
                self._mark_covered(at)

    def _mark_covered(self, at: int) -> None:
        if not self._covered[at]:
            self._covered[at] = 1
            self.covered += 1


_MIN_CODE_DIGITS = 24
"""Fewest digits of a code."""
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_HEX = frozenset("0123456789abcdefABCDEF")
_BETWEEN_HEX = frozenset(" \n\t:,-x\\%")
_URL_SAFE = str.maketrans("-_", "+/")


class DigitDecoder:
    """Decodes a row of digits as it grows. Digits that break off are forgotten."""

    def __init__(self, *, digits: frozenset[str], between: frozenset[str], group: int) -> None:
        self._digits = digits
        self._between = between
        self._group = group
        self._row: list[str] = []
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self.begin: int | None = None
        """Start of the row."""
        self.length = 0

    def accepts_char(self, char: str) -> bool:
        """Return whether `char` means anything to it now."""
        return self.begin is not None or char in self._digits

    def decode_char(self, char: str, at: int) -> str:
        """Return the text that `char`, which stands at `at`, completes."""
        if char not in self._digits:
            if char not in self._between:
                self.begin, self.length = None, 0
                self._row.clear()
                self._utf8.reset()
            return ""
        if self.begin is None:
            self.begin = at
        self.length += 1
        self._row.append(char)
        if self.length < _MIN_CODE_DIGITS or len(self._row) % self._group:
            return ""
        row = "".join(self._row)
        self._row.clear()
        raw = bytes.fromhex(row) if self._group == 2 else base64.b64decode(row.translate(_URL_SAFE))
        return self._utf8.decode(raw)


class SystemPromptJudge(TextJudge):
    """Follows one text. It holds back what may be a run of the prompt, and at most `hold_back` characters."""

    rule = "answers.system_prompt"

    def __init__(
        self, section: SystemPromptConfig, index: SecretIndex, known: frozenset[str], hold_back: int
    ) -> None:
        """`known`: what the index shares with texts that the client has anyway."""
        super().__init__(section.action)
        self._min_weight = section.words * _WORD
        self._covers = max(1, int(section.share * index.length))
        self._is_long = index.weight >= 2 * self._min_weight
        self._hold_back = hold_back
        self._plain = SecretOverlap(index, known)
        self._coded = [
            (DigitDecoder(digits=_BASE64, between=frozenset("\r\n"), group=4), SecretOverlap(index, known)),
            (DigitDecoder(digits=_HEX, between=_BETWEEN_HEX, group=2), SecretOverlap(index, known)),
        ]
        self._places: deque[int] = deque(maxlen=hold_back)
        """Positions of the latest letters."""
        self._seen = 0
        self._held_from = 0
        self._largely_leaked = False
        self._run: tuple[int, int] | None = None
        """A run that was found and continues."""

    async def judge_view(self, view: TextView, *, last: bool) -> Sequence[TextEdit]:
        text, holds = view.text, self.action == "block"
        while self._seen < len(text) and self.stop is None:
            at, char = self._seen, text[self._seen]
            self._seen += 1
            letters = fold_letter(char)
            begin = self._match_letters(letters, at) if letters else None
            for decoding, overlap in self._coded:
                if decoding.accepts_char(char) and self._match_digit(decoding, overlap, char, at):
                    begin = decoding.begin
            if begin is not None:
                self._run = (begin if self._run is None else min(begin, self._run[0]), at + 1)
                self.stop = max(self._held_from, self._hold_start()) if holds else None
            elif self._run is not None and letters:
                self._report_leak(view)
        if last or self.stop is not None:
            self._report_leak(view)
        if holds:
            self._held_from = max(self._held_from, self._hold_start())
        self.safe = len(text) if last or not holds else self._held_from
        return ()

    def _match_letters(self, letters: str, at: int) -> int | None:
        """Return where the run began that gives the prompt away, if one does with these letters."""
        plain = self._plain
        for letter in letters:
            plain.add_letter(letter)
            self._places.append(at)
        if not self._is_leak(plain):
            return None
        return self._places[-plain.length if plain.length <= len(self._places) else 0]

    def _match_digit(self, decoding: DigitDecoder, overlap: SecretOverlap, char: str, at: int) -> bool:
        """Return whether a code gives the prompt away with this character."""
        for letter in _extract_letters(decoding.decode_char(char, at)):
            overlap.add_letter(letter)
        return decoding.begin is not None and decoding.length >= _MIN_CODE_DIGITS and self._is_leak(overlap)

    def _is_leak(self, overlap: SecretOverlap) -> bool:
        largely = self._is_long and not self._largely_leaked and overlap.covered >= self._covers
        self._largely_leaked = self._largely_leaked or largely
        return largely or (overlap.length > 0 and overlap.weight >= self._min_weight)

    def _report_leak(self, view: TextView) -> None:
        if self._run is not None:
            self.add_finding(view, "system_prompt_leak", *self._run)
            self._run = None

    def _hold_start(self) -> int:
        length = max(self._plain.length, N - 1)
        begin = self._places[-length] if length <= len(self._places) else 0
        for decoding, _ in self._coded:
            if decoding.begin is not None:
                begin = min(begin, decoding.begin)
        return max(begin, self._seen - self._hold_back)
