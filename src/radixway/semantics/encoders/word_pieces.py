"""A text as word pieces, a long one in windows that overlap: nothing is cut off.

    pieces    0 ─────────────── 253
                          221 ─────────────── 474
                                        442 ─────── 600
    owned     [0, 237)      [237, 458)      [458, 600)

Every piece belongs to the one window in which it stands furthest from an edge.
"""

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tokenizers

from radixway.core.work_slices import run_at_once
from radixway.semantics.encoders.base import EncoderError, Ints

OVERLAP = 32
"""Pieces that a window has in common with the next."""

_AT_A_TIME = 4096
"""Characters split at a time: the library holds the interpreter lock."""

_SURROGATES = re.compile("[\ud800-\udfff]")


@dataclass(slots=True, frozen=True)
class TokenWindow:
    """A window of the model."""

    ids: Ints
    """[n], special tokens included."""
    begin: int
    """The first piece of the text that this window owns."""
    end: int
    """One after the last."""
    at: int
    """Index in `ids` of the piece `begin`."""


@dataclass(slots=True, frozen=True)
class TextPieces:
    """A text's word pieces."""

    ids: Ints
    """[tokens]"""
    offsets: Ints
    """[tokens, 2], in characters."""


class WordPieces:
    """A sentence model's tokenizer."""

    def __init__(self, directory: Path, longest: int) -> None:
        """`longest` is the most ids a window may have, special ones included. Raises EncoderError."""
        path = directory / "tokenizer.json"
        try:
            self._backend = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing more precise
            raise EncoderError(f"{path} is no tokenizer: {error}") from error
        self._backend.no_truncation()
        self._backend.no_padding()
        self._before, self._after = self._specials()
        self._window_tokens = longest - len(self._before) - len(self._after)
        if self._window_tokens <= 2 * OVERLAP:
            raise EncoderError(f"{directory}: windows of {longest} tokens are too short")

    def split_text(self, text: str) -> TextPieces:
        """Return the pieces of `text`; what is not valid Unicode in it counts as U+FFFD."""
        return run_at_once(self.split_text_steps(text))

    def split_text_steps(self, text: str) -> Generator[None, None, TextPieces]:
        """Split `text` with pauses in which others may go on: a megabyte takes seconds.

        A long text is split in parts that end before a space, where it makes no difference. Only in a run
        without spaces that is longer than a part some pieces may be others.
        """
        ids: list[Ints] = []
        offsets: list[Ints] = []
        begin = 0
        while not ids or begin < len(text):
            if ids:
                yield
            end = _find_part_end(text, begin)
            encoded = self._tokenize(text[begin:end])
            ids.append(np.array(encoded.ids, np.int32))
            offsets.append(np.array(encoded.offsets, np.int32).reshape(-1, 2) + np.int32(begin))
            begin = end
        return TextPieces(np.concatenate(ids), np.concatenate(offsets))

    def windows(self, pieces: TextPieces) -> Iterator[TokenWindow]:
        """Yield as few windows as there can be; one for a text without pieces."""
        count, before = len(pieces.ids), len(self._before)
        start = owned = 0
        while True:
            stop = min(start + self._window_tokens, count)
            end = count if stop == count else stop - OVERLAP // 2
            ids = np.concatenate([self._before, pieces.ids[start:stop], self._after])
            yield TokenWindow(ids, owned, end, owned - start + before)
            if stop == count:
                return
            start, owned = stop - OVERLAP, end

    def _tokenize(self, text: str) -> tokenizers.Encoding:
        try:
            return self._backend.encode(text, add_special_tokens=False)
        except (TypeError, UnicodeEncodeError):  # a lone surrogate
            return self._backend.encode(_SURROGATES.sub("\ufffd", text), add_special_tokens=False)

    def _specials(self) -> tuple[Ints, Ints]:
        """Return the ids before and after every text."""
        encoded = self._backend.encode("a")
        ids, special = np.array(encoded.ids, np.int32), np.array(encoded.special_tokens_mask, bool)
        if special.all():
            raise EncoderError("the tokenizer knows no letters")
        first, last = np.flatnonzero(~special)[[0, -1]]
        return ids[:first], ids[last + 1 :]


def _find_part_end(text: str, begin: int) -> int:
    end = begin + _AT_A_TIME
    if end >= len(text):
        return len(text)
    for at in range(end, begin, -1):
        if text[at].isspace():
            return at
    return end
