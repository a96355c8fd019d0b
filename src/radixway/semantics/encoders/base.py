"""What an encoder makes of a text, and what every encoder offers."""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
T = TypeVar("T")

BLOCK = 32
"""Pieces of which `TextEncoding.blocks` has a row."""


class EncoderError(Exception):
    """An encoder or a head that cannot be used; the text names the file and what is wrong with it."""


@dataclass(slots=True)
class TextEncoding:
    """A text, read once."""

    vector: Floats
    """[size], unit length: the last layer's mean over each window, windows weighted by their tokens."""
    tokens: int
    """Word pieces of the text; special ones are not counted."""
    offsets: Ints
    """[tokens, 2]: where each piece begins and ends in the text, in characters."""
    summary: Floats = field(default_factory=lambda: np.zeros(0, np.float32))
    """[4 · size]: of the pieces' states, the mean at a third of the layers, mean and maximum at two thirds,
    maximum at the last. It knows what the vector forgot; zeros for no pieces."""
    blocks: Floats = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    """[n, 5 · size]: of every `BLOCK` pieces, fewer at a window's end, the same four and the mean at the
    last layer: for what stands somewhere in a long text. They are in the text's order."""
    block_tokens: Ints = field(default_factory=lambda: np.zeros(0, np.int32))
    """[n]: how many pieces each has; they add up to `tokens`."""
    states: dict[int, Floats] = field(default_factory=dict)
    """By layer, the first one being 1: [tokens, size]. Only the layers that were asked for."""
    categories: Mapping[str, float] | None = None
    """Probability by category, where a classifier of one's own reads texts beside the encoder."""


class TextEncoder(Protocol):
    """A sentence model. Synchronous, and safe to use from several threads."""

    @property
    def id(self) -> str:
        """Name, weights and precision: vectors may be compared if and only if this is equal."""
        ...

    @property
    def weights(self) -> str:
        """SHA-256 of the file the weights are in, hexadecimal: what heads are tied to."""
        ...

    @property
    def size(self) -> int:
        """Numbers in a vector."""
        ...

    @property
    def layers(self) -> tuple[int, ...]:
        """Return the layers whose states can be asked for; the last one's make the vector."""
        ...

    def split_pieces(self, text: str) -> Generator[None, None, TextEncoding]:
        """Return the positions of the pieces only; vector and states are empty."""
        ...

    def encode(self, texts: Sequence[str], *, layers: Sequence[int] = ()) -> list[TextEncoding]:
        """Return one encoding per text. Raises ValueError for a layer that there is not."""
        ...

    def encode_steps(self, text: str, *, layers: Sequence[int] = ()) -> Generator[None, None, TextEncoding]:
        """Encode one text, pausing after every window, so that a long one lets others pass."""
        ...
