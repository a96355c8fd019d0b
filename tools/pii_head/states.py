"""What the encoder makes of many texts' words, kept in files: reading them takes longer than all the rest."""

import hashlib
import json
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from radixway.semantics.encoders import TextEncoder, TextEncoding
from radixway.semantics.guard.pii.pii_head import LAYERS
from radixway.semantics.guard.pii.word_features import WordSpans, split_words, word_bits

_SAVE_EVERY = 2000


class WordStates:
    """By text: its words, the means of their pieces' states, side by side, and their features."""

    def __init__(self, encoder: TextEncoder, folder: Path, layers: Sequence[int] = LAYERS) -> None:
        """`folder` keeps what was read with this encoder."""
        self.layers = tuple(layers)
        self._encoder = encoder
        self._states = folder / f"{encoder.id}.f16"
        self._index_file = folder / f"{encoder.id}.json"
        self._width = encoder.size * len(layers)
        folder.mkdir(parents=True, exist_ok=True)
        known = json.loads(self._index_file.read_text()) if self._index_file.is_file() else {}
        self._index: dict[str, tuple[int, list[list[int]], int]] = known
        self._rows = sum(len(words) for _, words, _ in self._index.values())

    def read(self, texts: list[str]) -> None:
        """Reads what is not known yet."""
        missing = [text for text in dict.fromkeys(texts) if _key(text) not in self._index]
        with self._states.open("r+b" if self._states.exists() else "w+b") as file:
            file.seek(self._rows * self._width * 2)
            for done, text in enumerate(missing, start=1):
                encoding = self._encoder.encode([text], layers=self.layers)[0]
                words = split_words(text, encoding.offsets)
                if len(words):
                    side_by_side = np.concatenate([encoding.states[layer] for layer in self.layers], axis=1)
                    file.write(words.pool_states(side_by_side).astype(np.float16).tobytes())
                table = np.stack([words.starts, words.begin, words.end], axis=1).tolist()
                self._index[_key(text)] = (self._rows, table, encoding.tokens)
                self._rows += len(table)
                if done % _SAVE_EVERY == 0 or done == len(missing):
                    file.flush()
                    self._index_file.write_text(json.dumps(self._index))
                    print(f"read {done} of {len(missing)}", file=sys.stderr, flush=True)
        self._file = np.memmap(self._states, np.float16, "r", shape=(self._rows, self._width))

    def words(self, text: str) -> WordSpans:
        """Of a text that was read."""
        _, table, _ = self._index[_key(text)]
        columns = np.array(table, np.int64).reshape(-1, 3)
        return WordSpans(columns[:, 0], columns[:, 1].astype(np.int32), columns[:, 2].astype(np.int32))

    def bits(self, text: str) -> NDArray[np.int64]:
        """[words]"""
        return word_bits(text, self.words(text), self._index[_key(text)][2])

    def of(self, text: str) -> NDArray[np.float16]:
        """[words, layers · size]"""
        start, table, _ = self._index[_key(text)]
        return self._file[start : start + len(table)]


class NoStates:
    """The same of an encoder that is not asked: words and features alone."""

    layers: tuple[int, ...] = ()

    def __init__(self, encoder: TextEncoder) -> None:
        self._encoder = encoder
        self._known: dict[str, tuple[WordSpans, NDArray[np.int64]]] = {}

    def read(self, texts: list[str]) -> None:
        """Splits what is not known yet."""
        for text in dict.fromkeys(texts):
            pieces = run(self._encoder.split_pieces(text))
            words = split_words(text, pieces.offsets)
            self._known[text] = words, word_bits(text, words, pieces.tokens)

    def words(self, text: str) -> WordSpans:
        """Of a text that was split."""
        return self._known[text][0]

    def bits(self, text: str) -> NDArray[np.int64]:
        """[words]"""
        return self._known[text][1]

    def of(self, text: str) -> NDArray[np.float16]:
        """[words, 0]"""
        return np.zeros((len(self._known[text][0]), 0), np.float16)


def run(steps: Generator[None, None, TextEncoding]) -> TextEncoding:
    """To its end."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            return done.value


def _key(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:24]
