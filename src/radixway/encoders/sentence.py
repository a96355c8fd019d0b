"""A sentence model: word pieces, windows, whatever runs it, and one vector per text."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Protocol

import numpy as np

from radixway.encoders.encoding import Encoding, Floats, Ints
from radixway.encoders.files import ModelConfig
from radixway.encoders.windows import WordPieces


class Backbone(Protocol):
    """What turns ids into states; safe to use from several threads."""

    @property
    def precision(self) -> str:
        """What distinguishes its figures from another's: `fp32`, `int8` …"""
        ...

    def run(self, ids: Ints, layers: Sequence[int]) -> list[Floats]:
        """States of `layers`, in their order, for one window: [n, size] each."""
        ...


class SentenceEncoder:
    """An `Encoder`. One window at a time, so that a text's vector does not depend on its neighbours."""

    def __init__(
        self,
        name: str,
        weights: str,
        config: ModelConfig,
        pieces: WordPieces,
        backbone: Backbone,
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

    def encode(self, texts: Sequence[str], *, layers: Sequence[int] = ()) -> list[Encoding]:
        """See `Encoder`."""
        return [_finish(self.steps(text, layers=layers)) for text in texts]

    def steps(self, text: str, *, layers: Sequence[int] = ()) -> Generator[None, None, Encoding]:
        """See `Encoder`."""
        if unknown := set(layers) - set(self.layers):
            raise ValueError(f"{self.id} has layers {list(self.layers)}, not {sorted(unknown)}")
        wanted = sorted({*self._summarised, *layers})
        pieces = self._pieces.split(text)
        runs: list[list[Floats]] = []
        total = np.zeros(self.size, np.float32)
        for window in self._pieces.windows(pieces):
            if runs:
                yield
            states = self._backbone.run(window.ids, wanted)
            pooled = states[-1][0] if self._pooling == "cls" else states[-1].mean(axis=0)
            total += pooled * max(1, window.end - window.begin)
            owned = slice(window.at, window.at + window.end - window.begin)
            runs.append([state[owned] for state in states])
        merged = {
            layer: np.concatenate(parts) for layer, parts in zip(wanted, zip(*runs, strict=True), strict=True)
        }
        return Encoding(
            vector=total / max(float(np.linalg.norm(total)), 1e-12),
            tokens=len(pieces.ids),
            offsets=pieces.offsets,
            summary=_summary(*(merged[layer] for layer in self._summarised)),
            states={layer: merged[layer] for layer in layers},
        )


def _summary(early: Floats, middle: Floats, last: Floats) -> Floats:
    """Of three layers' states, [n, size] each: see `Encoding.summary`."""
    if not len(last):
        return np.zeros(4 * last.shape[1], np.float32)
    return np.concatenate([early.mean(axis=0), middle.mean(axis=0), middle.max(axis=0), last.max(axis=0)])


def _finish(steps: Generator[None, None, Encoding]) -> Encoding:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            encoding: Encoding = done.value
            return encoding
