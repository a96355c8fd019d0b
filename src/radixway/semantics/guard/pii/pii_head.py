"""The PII head: soft types of personal data, from an encoder's middle layers and what words look like."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import radixway.bundled
from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.encoders.base import EncoderError, Floats, TextEncoder, TextEncoding
from radixway.semantics.encoders.heads.head_file import HeadFile
from radixway.semantics.guard.pii.address_parts import join_address_parts
from radixway.semantics.guard.pii.chinese_tagger import (
    ChineseTagger,
    WritingScript,
    detect_script,
    has_chinese,
    split_units,
)
from radixway.semantics.guard.pii.sequence_tagger import TAGS, TaggedSpan, TaggerConvolutions, decode_spans
from radixway.semantics.guard.pii.word_features import FEATURES, WordSpans, as_matrix, split_words, word_bits

PII_HEAD = Path(radixway.bundled.__file__).parent / "heads" / "pii.npz"
"""The one that ships."""
LAYERS = (2, 4, 6)
"""Whose states are read: names are told apart early, what they mean late."""
WORDS_HEAD = PII_HEAD.with_name("pii_words.npz")
"""Ships, too: knows what words look like, and no states. For texts too long to read whole."""

_PART = 1024
"""Words read at a time; more would keep megabytes."""
_HALO = 8
"""Words on either side of a part that are read with it: as far as the convolutions see, twice."""

_CHARACTERS = 4000
"""Of Chinese, read at a time."""


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
        """Raises EncoderError for shapes that do not fit, KeyError where an array is missing."""
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
        """[end - begin, tags], of the words from `begin` to `end`."""
        part = words.slice_words(begin, end)
        first = int(words.starts[begin])
        last = int(words.starts[end]) if end < len(words) else encoding.tokens
        read = np.zeros((last - first, len(self.bias)), np.float32)
        for layer, weights in self.states.items():
            read += encoding.states[layer][first:last] @ weights
        seen = part.pool_states(read) + as_matrix(word_bits(text, part, last - first)) @ self.features
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
        """`chinese`: the file of a head for it, as above. Raises EncoderError where a file is damaged, or was
        trained with another encoder."""
        head = HeadFile.load_file(path, kind="pii")
        head.check_encoder(encoder)
        return cls(head, None if chinese is None else HeadFile.load_file(chinese, kind="pii"))

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers of the encoder whose states are read."""
        return tuple(self._latin.states)

    def find_spans(self, text: str, encoding: TextEncoding) -> list[PersonalDataSpan]:
        """In order, none overlapping another; of any confidence. `encoding` has the states of `layers`."""
        steps = self.find_spans_steps(text, encoding)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                found: list[PersonalDataSpan] = done.value
                return found

    def find_spans_steps(
        self, text: str, encoding: TextEncoding
    ) -> Generator[None, None, list[PersonalDataSpan]]:
        """Do `find_spans` in steps, so that a long `text` does not block others; `encoding`: see there."""
        script = detect_script(text)
        found: list[PersonalDataSpan] = []
        if script is not WritingScript.CHINESE_ALONE:
            found += yield from self._latin_steps(text, encoding)
        if script is not WritingScript.LATIN:
            found = [each for each in found if not has_chinese(text[each.begin : each.end])]
            chinese = yield from self._chinese_steps(text)
            if script is WritingScript.MOSTLY_LATIN:
                chinese = [each for each in chinese if has_chinese(text[each.begin : each.end])]
            else:
                found = [each for each in found if _has_letter(text[each.begin : each.end])]
            found = _keep_surest(found + chinese)
        return found

    def _latin_steps(
        self, text: str, encoding: TextEncoding
    ) -> Generator[None, None, list[PersonalDataSpan]]:
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

    def _chinese_steps(self, text: str) -> Generator[None, None, list[PersonalDataSpan]]:
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
    """In order; of two that overlap the surer one. Those of one tagger never do."""
    kept: list[PersonalDataSpan] = []
    for each in sorted(found, key=lambda each: each.begin):
        if kept and kept[-1].end > each.begin:
            if kept[-1].confidence < each.confidence:
                kept[-1] = each
        else:
            kept.append(each)
    return kept


def _has_letter(text: str) -> bool:
    return any(character.isalpha() for character in text)


def _split_lines(text: str) -> Generator[tuple[int, int], None, None]:
    """Parts of a few thousand characters that end at a line's end or a sentence's, where there is one."""
    begin = 0
    while len(text) - begin > _CHARACTERS:
        latest = begin + _CHARACTERS
        ends = (text.rfind(mark, begin + 1, latest) for mark in "\n。 ")
        end = next((found + 1 for found in ends if found > begin), latest)
        yield begin, end
        begin = end
    yield begin, len(text)
