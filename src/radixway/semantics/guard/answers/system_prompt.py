"""The system prompt in an answer: in a row, in large part, or in base64 or hexadecimal digits."""

from __future__ import annotations

import base64
import codecs
from collections import deque
from collections.abc import Sequence

from radixway.core.config.guard import SystemPromptConfig
from radixway.semantics.guard.answers.secret_overlap import (
    WORD,
    N,
    SecretIndex,
    SecretOverlap,
    extract_letters,
    fold_letter,
)
from radixway.semantics.guard.answers.text_view import TextEdit, TextView
from radixway.semantics.guard.incident import GuardFinding

_LEAST_CODE = 24
"""Digits from which a row may be a code."""
_BASE64 = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/-_")
_HEX = frozenset("0123456789abcdefABCDEF")
_BETWEEN_HEX = frozenset(" \n\t:,-x\\%")
_URL_SAFE = str.maketrans("-_", "+/")


class DigitDecoder:
    """A row of digits, decoded as it grows. Digits that break off are forgotten."""

    def __init__(self, *, digits: frozenset[str], between: frozenset[str], group: int) -> None:
        self._digits = digits
        self._between = between
        self._group = group
        self._row: list[str] = []
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self.begin: int | None = None
        """Where the row began."""
        self.length = 0

    def accepts_char(self, char: str) -> bool:
        """Whether a character means anything to it now."""
        return self.begin is not None or char in self._digits

    def decode_char(self, char: str, at: int) -> str:
        """What one more character tells."""
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
        if self.length < _LEAST_CODE or len(self._row) % self._group:
            return ""
        row = "".join(self._row)
        self._row.clear()
        raw = bytes.fromhex(row) if self._group == 2 else base64.b64decode(row.translate(_URL_SAFE))
        return self._utf8.decode(raw)


class SystemPromptJudge:
    """Follows one text. It holds back what may be a run of the prompt, and at most `hold_back` characters."""

    rule = "answers.system_prompt"

    def __init__(
        self, section: SystemPromptConfig, index: SecretIndex, known: frozenset[str], hold_back: int
    ) -> None:
        """`known`: what the index shares with texts that the client has anyway."""
        self.action = section.action
        self.safe = 0
        self.stop: int | None = None
        self._least = section.words * WORD
        self._covers = max(1, int(section.share * index.length))
        self._is_long = index.weight >= 2 * self._least
        self._hold_back = hold_back
        self._plain = SecretOverlap(index, known)
        self._coded = [
            (DigitDecoder(digits=_BASE64, between=frozenset("\r\n"), group=4), SecretOverlap(index, known)),
            (DigitDecoder(digits=_HEX, between=_BETWEEN_HEX, group=2), SecretOverlap(index, known)),
        ]
        self._places: deque[int] = deque(maxlen=hold_back)
        """Where the latest letters stand."""
        self._seen = 0
        self._held = 0
        self._told_largely = False
        self._run: tuple[int, int] | None = None
        """A run that is found already, and goes on."""
        self._findings: list[tuple[TextView, int, int]] = []

    async def judge_view(self, view: TextView, *, last: bool) -> Sequence[TextEdit]:
        """See `Judge`. Nothing is changed: what is told is told."""
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
                self.stop = max(self._held, self._held_from()) if holds else None
            elif self._run is not None and letters:
                self._report_leak(view)
        if last or self.stop is not None:
            self._report_leak(view)
        if holds:
            self._held = max(self._held, self._held_from())
        self.safe = len(text) if last or not holds else self._held
        return ()

    async def judge_overdue(self, view: TextView) -> Sequence[TextEdit]:
        """See `Judge`: a run that may be one goes on waiting."""
        return ()

    def take_findings(self) -> list[GuardFinding]:
        """See `Judge`."""
        found, self._findings = self._findings, []
        return [view.make_finding("system_prompt_leak", begin, end, 1.0) for view, begin, end in found]

    def _match_letters(self, letters: str, at: int) -> int | None:
        """More letters. Where the run began that gives the prompt away, if one does by now."""
        plain = self._plain
        for letter in letters:
            plain.add_letter(letter)
            self._places.append(at)
        if not self._is_leak(plain):
            return None
        return self._places[-plain.length if plain.length <= len(self._places) else 0]

    def _match_digit(self, decoding: DigitDecoder, overlap: SecretOverlap, char: str, at: int) -> bool:
        """One more character of what may be a code. Whether the code gives the prompt away by now."""
        for letter in extract_letters(decoding.decode_char(char, at)):
            overlap.add_letter(letter)
        return decoding.begin is not None and decoding.length >= _LEAST_CODE and self._is_leak(overlap)

    def _is_leak(self, overlap: SecretOverlap) -> bool:
        largely = self._is_long and not self._told_largely and overlap.covered >= self._covers
        self._told_largely = self._told_largely or largely
        return largely or (overlap.length > 0 and overlap.weight >= self._least)

    def _report_leak(self, view: TextView) -> None:
        if self._run is not None:
            self._findings.append((view, *self._run))
            self._run = None

    def _held_from(self) -> int:
        """Where what may be part of a run begins."""
        length = max(self._plain.length, N - 1)
        begin = self._places[-length] if length <= len(self._places) else 0
        for decoding, _ in self._coded:
            if decoding.begin is not None:
                begin = min(begin, decoding.begin)
        return max(begin, self._seen - self._hold_back)
