"""The PII head: soft types of personal data, from an encoder's middle layers and what words look like."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import radixway.bundled
from radixway.core.pipeline import PersonalDataSpan
from radixway.core.work_slices import run_at_once
from radixway.semantics.encoders.base import EncoderError, Floats, TextEncoder, TextEncoding
from radixway.semantics.encoders.heads.head_file import HeadFile
from radixway.semantics.guard.pii.chinese_tagger import (
    ChineseTagger,
    WritingScript,
    detect_script,
    has_chinese,
    split_units,
)
from radixway.semantics.guard.pii.sequence_tagger import (
    TAGS,
    TaggedSpan,
    TaggerConvolutions,
    decode_spans,
    feature_matrix,
    join_address_parts,
)
from radixway.semantics.guard.pii.word_features import FEATURES, WordSpans, split_words, word_bits
from radixway.semantics.guard.step_executor import Steps

PII_HEAD = Path(radixway.bundled.__file__).parent / "heads" / "pii.npz"
"""The one that ships."""
LAYERS = (2, 4, 6)
"""Layers that are read: names are told apart early, their meaning late."""
WORDS_HEAD = PII_HEAD.with_name("pii_words.npz")
"""Ships, too: knows what words look like, and no states. For texts too long for the encoder."""

_PART = 1024
"""Words read at a time; more would keep megabytes."""
_HALO = 8
"""Words around a part that are read with it: twice the convolutions' reach."""

_CHARACTERS = 4000
"""Chinese characters read at a time."""

MAX_READ_STRETCHES = 8
"""Stretches of a text that the encoder reads."""
STRETCH, MARGIN = 220, 16
"""Pieces."""
_WORTH_IT = 0.3
"""Doubt below which reading would change nothing."""


@dataclass(slots=True, frozen=True)
class LatinTagger:
    """Tags of words, for every script but Chinese."""

    states: dict[int, Floats]
    """By layer, [size, hidden]."""
    features: Floats
    """[features, hidden]"""
    bias: Floats
    """[hidden]"""
    convolutions: TaggerConvolutions

    @classmethod
    def from_head(cls, head: HeadFile) -> LatinTagger:
        """Read `head`. Raises EncoderError for shapes that do not fit, KeyError for a missing array."""
        layers = head.settings.get("layers", LAYERS)
        states = {layer: head.arrays[f"latin_states_{layer}"].astype(np.float32) for layer in layers}
        features = head.arrays["latin_features"].astype(np.float32)
        if len(features) != len(FEATURES):
            raise EncoderError(f"the PII head knows {len(features)} features of words, not {len(FEATURES)}")
        bias = head.arrays["latin_bias"].astype(np.float32)
        return cls(states, features, bias, TaggerConvolutions.from_arrays(head.arrays, "latin"))

    def likelihoods(
        self, text: str, encoding: TextEncoding, words: WordSpans, begin: int, end: int
    ) -> Floats:
        """Return [end - begin, tags], of the words from `begin` to `end`."""
        part = words.slice_words(begin, end)
        first = int(words.starts[begin])
        last = int(words.starts[end]) if end < len(words) else encoding.tokens
        read = np.zeros((last - first, len(self.bias)), np.float32)
        for layer, weights in self.states.items():
            read += encoding.states[layer][first:last] @ weights
        marks = feature_matrix(word_bits(text, part, last - first), len(FEATURES))
        seen = part.pool_states(read) + marks @ self.features
        return self.convolutions.likelihoods(np.maximum(seen + self.bias, 0))


class PiiHead:
    """Finds soft types. Safe to use from several threads."""

    def __init__(self, head: HeadFile, chinese: HeadFile | None = None) -> None:
        """`chinese`: where `head` has no tagger of Chinese, one that has. Raises EncoderError for a head that
        this version cannot read."""
        if head.labels != TAGS:
            raise EncoderError(f"the PII head has the tags {', '.join(head.labels)}, not {', '.join(TAGS)}")
        try:
            self._latin = LatinTagger.from_head(head)
            self._chinese = ChineseTagger.from_head(chinese or head)
        except KeyError as error:
            raise EncoderError(f"the PII head has no {error}") from None

    @classmethod
    def load_file(cls, path: Path, encoder: TextEncoder, chinese: Path | None = None) -> PiiHead:
        """Load the head at `path`; `chinese`: the file of a head for it, as above.

        Raises EncoderError where a file is damaged, or was trained with another encoder.
        """
        head = HeadFile.load_file(path, kind="pii")
        head.check_encoder(encoder)
        return cls(head, None if chinese is None else HeadFile.load_file(chinese, kind="pii"))

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers of the encoder whose states are read."""
        return tuple(self._latin.states)

    def find_spans(self, text: str, encoding: TextEncoding) -> list[PersonalDataSpan]:
        """Find spans in `text`, in order, none overlapping another, of any confidence.

        `encoding` is that of `text`, with the states of `layers`.
        """
        return run_at_once(self.find_spans_steps(text, encoding))

    def find_spans_steps(self, text: str, encoding: TextEncoding) -> Steps[list[PersonalDataSpan]]:
        """Do `find_spans` in steps, so that a long `text` does not block others; `encoding`: see there."""
        script = detect_script(text)
        found: list[PersonalDataSpan] = []
        if script is not WritingScript.CHINESE_ALONE:
            found += yield from self._latin_steps(text, encoding)
        if script is not WritingScript.LATIN:
            found = [span for span in found if not has_chinese(text[span.begin : span.end])]
            chinese = yield from self._chinese_steps(text)
            if script is WritingScript.MOSTLY_LATIN:
                chinese = [span for span in chinese if has_chinese(text[span.begin : span.end])]
            else:
                found = [span for span in found if any(map(str.isalpha, text[span.begin : span.end]))]
            found = _keep_surest(found + chinese)
        return found

    def _latin_steps(self, text: str, encoding: TextEncoding) -> Steps[list[PersonalDataSpan]]:
        words = split_words(text, encoding.offsets)
        if not len(words):
            return []
        parts = []
        for begin in range(0, len(words), _PART):
            if begin:
                yield
            end = min(begin + _PART, len(words))
            first, last = max(0, begin - _HALO), min(len(words), end + _HALO)
            likely = self._latin.likelihoods(text, encoding, words, first, last)
            parts.append(likely[begin - first : len(likely) - (last - end)])
        begins, ends = words.begin.tolist(), words.end.tolist()
        found = [_to_personal_data(span, begins, ends) for span in decode_spans(np.concatenate(parts))]
        return join_address_parts(found, text)

    def _chinese_steps(self, text: str) -> Steps[list[PersonalDataSpan]]:
        found: list[PersonalDataSpan] = []
        for begin, end in _split_lines(text):
            if begin:
                yield
            units = split_units(text, begin, end)
            if len(units):
                spans = decode_spans(self._chinese.likelihoods(units))
                found += (_to_personal_data(span, units.begin, units.end) for span in spans)
        return join_address_parts(found, text)


def _to_personal_data(span: TaggedSpan, begins: list[int], ends: list[int]) -> PersonalDataSpan:
    return PersonalDataSpan(span.type, begins[span.begin], ends[span.end - 1], span.confidence)


def _keep_surest(found: list[PersonalDataSpan]) -> list[PersonalDataSpan]:
    """Return `found` in order; of two that overlap the surer one. Spans of one tagger never overlap."""
    surest: list[PersonalDataSpan] = []
    for span in sorted(found, key=lambda span: span.begin):
        if surest and surest[-1].end > span.begin:
            if surest[-1].confidence < span.confidence:
                surest[-1] = span
        else:
            surest.append(span)
    return surest


def _split_lines(text: str) -> Iterator[tuple[int, int]]:
    """Yield parts of a few thousand characters that end with a line or a sentence, where there is one."""
    begin = 0
    while len(text) - begin > _CHARACTERS:
        latest = begin + _CHARACTERS
        ends = (text.rfind(mark, begin + 1, latest) for mark in "\n。 ")
        end = next((found + 1 for found in ends if found > begin), latest)
        yield begin, end
        begin = end
    yield begin, len(text)


def scan_partially(
    word_head: PiiHead, full_head: PiiHead, text: str, encoder: TextEncoder
) -> Steps[list[PersonalDataSpan]]:
    """Find soft types in a `text` too long for the encoder: nearly as `full_head` would find them.

    `word_head`, a head that reads no states, looks at all of it; the encoder reads where most doubt is left.

    pieces    0 ────────── 220 ────────── 440 ────────── 660 …
    read           [204 ──────────── 456)                       16 more on either side make it one window
    kept               [220 ────────── 440)
    """
    pieces = yield from encoder.split_pieces(text)
    yield
    found = yield from word_head.find_spans_steps(text, pieces)
    for stretch in most_doubtful_stretches(found, pieces):
        yield
        begin, end = _characters(pieces, stretch, 0)
        left, right = _characters(pieces, stretch, MARGIN)
        encoding = yield from encoder.encode_steps(text[left:right], layers=LAYERS)
        again = yield from full_head.find_spans_steps(text[left:right], encoding)
        found = [span for span in found if not begin <= span.begin < end]
        moved = (replace(span, begin=span.begin + left, end=span.end + left) for span in again)
        found += (span for span in moved if begin <= span.begin < end)
    return sorted(found, key=lambda span: span.begin)


def most_doubtful_stretches(found: list[PersonalDataSpan], pieces: TextEncoding) -> list[int]:
    """Return the stretches of `pieces` where `found` leaves most doubt: at most `MAX_READ_STRETCHES`, in
    order."""
    if not found:
        return []
    at = np.searchsorted(pieces.offsets[:, 0], [span.begin for span in found], side="right") - 1
    doubt = [min(span.confidence, 1 - span.confidence) for span in found]
    by_stretch = np.bincount(at // STRETCH, doubt)
    ranked = np.argsort(-by_stretch, kind="stable")[:MAX_READ_STRETCHES]
    return sorted(int(stretch) for stretch in ranked if by_stretch[stretch] >= _WORTH_IT)


def _characters(pieces: TextEncoding, stretch: int, margin: int) -> tuple[int, int]:
    """Return the characters of a stretch, with `margin` pieces more on either side."""
    first = max(0, stretch * STRETCH - margin)
    last = min(pieces.tokens, (stretch + 1) * STRETCH + margin)
    return int(pieces.offsets[first, 0]), int(pieces.offsets[last - 1, 1])
