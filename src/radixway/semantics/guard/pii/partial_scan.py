"""Soft types in a text too long to read whole: words everywhere, the encoder where they leave most doubt.

pieces    0 ────────── 220 ────────── 440 ────────── 660 …
read           [204 ──────────── 456)                       16 more on either side, so that it is one window
kept               [220 ────────── 440)
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import numpy as np

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.encoders import TextEncoder, TextEncoding
from radixway.semantics.guard.pii.pii_head import LAYERS, PiiHead

MOST_READ = 8
"""Stretches of a text that the encoder reads."""
STRETCH, MARGIN = 220, 16
"""Pieces."""
_WORTH_IT = 0.3
"""Doubt below which reading would change nothing."""


def scan_partially(
    words: PiiHead, whole: PiiHead, text: str, encoder: TextEncoder
) -> Generator[None, None, list[PersonalDataSpan]]:
    """As `whole` would find them, nearly. Pauses after every window. `words` reads no states."""
    pieces = yield from encoder.split_pieces(text)
    yield
    found = yield from words.find_spans_steps(text, pieces)
    for stretch in most_doubtful_stretches(found, pieces):
        yield
        begin, end = _characters(pieces, stretch, 0)
        left, right = _characters(pieces, stretch, MARGIN)
        encoding = yield from encoder.encode_steps(text[left:right], layers=LAYERS)
        again = yield from whole.find_spans_steps(text[left:right], encoding)
        found = [each for each in found if not begin <= each.begin < end]
        moved = (replace(each, begin=each.begin + left, end=each.end + left) for each in again)
        found += (each for each in moved if begin <= each.begin < end)
    return sorted(found, key=lambda each: each.begin)


def most_doubtful_stretches(found: list[PersonalDataSpan], pieces: TextEncoding) -> list[int]:
    """Return the stretches of `pieces` where `found` leaves most doubt: at most `MOST_READ`, in order."""
    if not found:
        return []
    at = np.searchsorted(pieces.offsets[:, 0], [each.begin for each in found], side="right") - 1
    doubt = [min(each.confidence, 1 - each.confidence) for each in found]
    by_stretch = np.bincount(at // STRETCH, doubt)
    most = np.argsort(-by_stretch, kind="stable")[:MOST_READ]
    return sorted(int(each) for each in most if by_stretch[each] >= _WORTH_IT)


def _characters(pieces: TextEncoding, stretch: int, margin: int) -> tuple[int, int]:
    """Of a stretch, with so many pieces more on either side."""
    first = max(0, stretch * STRETCH - margin)
    last = min(pieces.tokens, (stretch + 1) * STRETCH + margin)
    return int(pieces.offsets[first, 0]), int(pieces.offsets[last - 1, 1])
