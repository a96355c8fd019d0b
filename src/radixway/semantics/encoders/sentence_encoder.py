"""A sentence model: word pieces, windows, whatever runs it, and one vector per text."""

from collections.abc import Generator, Sequence
from typing import Protocol

import numpy as np

from radixway.core.work_slices import run_at_once
from radixway.semantics.encoders.base import BLOCK, Floats, Ints, TextEncoding
from radixway.semantics.encoders.model_files import BertConfig
from radixway.semantics.encoders.word_pieces import WordPieces


class EncoderBackbone(Protocol):
    """Turns ids into states; safe to use from several threads."""

    @property
    def precision(self) -> str:
        """Return the precision of its figures: `fp32`, `int8` …"""
        ...

    def run_window(self, ids: Ints, layers: Sequence[int]) -> list[Floats]:
        """States of `layers`, in their order, for one window: [n, size] each."""
        ...


class SentenceEncoder:
    """A `TextEncoder`. One window at a time, so that a text's vector does not depend on its neighbours."""

    def __init__(
        self,
        name: str,
        weights: str,
        config: BertConfig,
        pieces: WordPieces,
        backbone: EncoderBackbone,
        layers: tuple[int, ...],
    ) -> None:
        self.weights = weights
        self.id = f"{name}-{weights[:12]}-{backbone.precision}"
        self.size = config.size
        self.layers = layers
        self._pooling = config.pooling
        self._pieces = pieces
        self._backbone = backbone
        self._summarised = tuple(layers[max(0, len(layers) * third // 3 - 1)] for third in (1, 2, 3))

    def split_pieces(self, text: str) -> Generator[None, None, TextEncoding]:
        found = yield from self._pieces.split_text_steps(text)
        return TextEncoding(np.zeros(self.size, np.float32), len(found.ids), found.offsets)

    def encode(self, texts: Sequence[str], *, layers: Sequence[int] = ()) -> list[TextEncoding]:
        return [run_at_once(self.encode_steps(text, layers=layers)) for text in texts]

    def encode_steps(self, text: str, *, layers: Sequence[int] = ()) -> Generator[None, None, TextEncoding]:
        if unknown := set(layers) - set(self.layers):
            raise ValueError(f"{self.id} has layers {list(self.layers)}, not {sorted(unknown)}")
        wanted = sorted({*self._summarised, *layers})
        pieces = yield from self._pieces.split_text_steps(text)
        kept_states: dict[int, list[Floats]] = {layer: [] for layer in layers}
        summary = _Summary(self.size)
        blocks = _Blocks(self.size)
        total = np.zeros(self.size, np.float32)
        begun = False
        for window in self._pieces.windows(pieces):
            if begun:
                yield
            begun = True
            states = dict(zip(wanted, self._backbone.run_window(window.ids, wanted), strict=True))
            last = states[wanted[-1]]
            pooled = last[0] if self._pooling == "cls" else last.mean(axis=0)
            total += pooled * max(1, window.end - window.begin)
            owned = slice(window.at, window.at + window.end - window.begin)
            summarised = [states[layer][owned] for layer in self._summarised]
            summary.add_window(*summarised)
            blocks.add_window(*summarised)
            for layer, parts in kept_states.items():
                parts.append(states[layer][owned])
        return TextEncoding(
            vector=total / max(float(np.linalg.norm(total)), 1e-12),
            tokens=len(pieces.ids),
            offsets=pieces.offsets,
            summary=summary.mean_states(len(pieces.ids)),
            blocks=blocks.rows(),
            block_tokens=blocks.tokens(),
            states={layer: np.concatenate(parts) for layer, parts in kept_states.items()},
        )


class _Summary:
    """See `TextEncoding.summary`. Three layers' states, added up and let go: a megabyte has 2 GB of them."""

    def __init__(self, size: int) -> None:
        self._sums = [np.zeros(size, np.float32) for _ in range(2)]
        self._maxima = [np.full(size, -np.inf, np.float32) for _ in range(2)]

    def add_window(self, early: Floats, middle: Floats, last: Floats) -> None:
        """Add a window's states, [n, size] each."""
        if len(last):
            for total, states in zip(self._sums, (early, middle), strict=True):
                total += states.sum(axis=0)
            for maximum, states in zip(self._maxima, (middle, last), strict=True):
                np.maximum(maximum, states.max(axis=0), out=maximum)

    def mean_states(self, tokens: int) -> Floats:
        """Return the mean over `tokens`; zeros for a text without any."""
        if not tokens:
            return np.zeros(4 * len(self._sums[0]), np.float32)
        return np.concatenate([*(total / np.float32(tokens) for total in self._sums), *self._maxima])


class _Blocks:
    """See `TextEncoding.blocks`."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._rows: list[Floats] = []
        self._counts: list[int] = []

    def add_window(self, early: Floats, middle: Floats, last: Floats) -> None:
        """Add a window's states, [n, size] each."""
        if not len(last):
            return
        starts = np.arange(0, len(last), BLOCK)
        counts = np.diff(np.append(starts, len(last)))
        share = (1 / counts).astype(np.float32)[:, None]
        parts = [np.add.reduceat(states, starts) * share for states in (early, middle)]
        parts += [np.maximum.reduceat(states, starts) for states in (middle, last)]
        self._rows.append(np.hstack([*parts, np.add.reduceat(last, starts) * share]))
        self._counts += counts.tolist()

    def rows(self) -> Floats:
        """[n, 5 · size]"""
        return np.concatenate(self._rows) if self._rows else np.zeros((0, 5 * self._size), np.float32)

    def tokens(self) -> Ints:
        """[n]"""
        return np.array(self._counts, np.int32)
