"""How likely a text attacks the prompt: an encoder's states and hashed n-grams, each part of the text apart.

Two linear readers, and a third that weighs what they say by script, together with the known wordings. MiniLM
reads English: of Chinese only the n-grams speak. What weighs them was fitted on families of attacks that the
two readers had not been trained on, so that it trusts them as far as they carry over to what is new.

A text in parts: an attack may stand anywhere in it, and a mean over all of it would drown a short one.

blocks    0 1 2 3 4 5 6 7 8 9 …        32 pieces each, see `TextEncoding.blocks`
windows   [0 … 7] [4 … 11] …           of the whole text, where it has no more blocks
closer    [0 1] [1 2] [2 3] …          where there are more than two
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import radixway.bundled
from radixway.semantics.encoders import EncoderError, EncoderService, TextEncoder, TextEncoding
from radixway.semantics.encoders.base import Floats, Ints
from radixway.semantics.encoders.heads import HeadFile
from radixway.semantics.encoders.heads.domain_head import weighted_ngrams
from radixway.semantics.encoders.heads.ngrams import text_features
from radixway.semantics.guard.jailbreak.attack_reader import (
    KINDS,
    THREAD_MIN_CHARS,
    AttackReader,
    AttackReading,
)
from radixway.semantics.guard.step_executor import Steps, run_steps

_log = logging.getLogger(__name__)

JAILBREAK_HEAD = Path(radixway.bundled.__file__).parent / "heads" / "jailbreak.npz"
"""The one that ships."""
PASSAGES = 4
"""Passages of a long text that the encoder reads: those whose n-grams are likeliest to attack."""
_PASSAGES_A_STEP = 32
HAN_ALONE = 0.5
"""Share of Chinese among a text's characters from which the encoder's states say nothing."""


@dataclass(slots=True, frozen=True)
class NgramReading:
    """Logits of the n-grams of a text, passage by passage."""

    passages: Sequence[str]
    logits: Floats
    """[passages, 1 + kinds]"""
    han: float
    """How far the text counts as Chinese, in [0, 1]."""

    @property
    def most_likely_attack(self) -> Floats:
        """The logits, [1 + kinds], of the passage that is likeliest to attack."""
        row: Floats = self.logits[int(self.logits[:, 0].argmax())]
        return row

    def most_suspicious(self, count: int) -> list[str]:
        """Return the `count` passages that are likeliest to attack, in that order."""
        order = np.argsort(-self.logits[:, 0], kind="stable")
        return [self.passages[at] for at in order[:count]]


@dataclass(slots=True, frozen=True)
class ReaderWeights:
    """Weights of the readers' logits."""

    bias: float
    states: float
    words: float
    han_words: float
    """The n-grams', of Chinese, in place of both."""
    han_bias: float
    wordings: float
    """Evidence of known patterns: -Σ log(1 - confidence)."""

    def logit(self, states: float, words: float, han: float, evidence: float) -> float:
        """Weigh the logits `states` and `words`. `han`: how far the text counts as Chinese, in [0, 1]."""
        latin = self.bias + self.states * states + self.words * words
        chinese = self.han_bias + self.han_words * words
        return (1 - han) * latin + han * chinese + self.wordings * evidence


class JailbreakHead:
    """Reads a text with what an encoder made of it."""

    def __init__(self, head: HeadFile) -> None:
        """Raises EncoderError where `head` lacks an array, or has one of another shape."""
        self.labels = head.labels
        columns = 1 + len(head.labels)
        try:
            self._buckets = int(head.settings["buckets"])
            self._weights = ReaderWeights(**head.settings["weights"])
            self._states = _read_array(head, "states", head.arrays["states"].shape[0], columns)
            self._states_bias = _read_array(head, "states_bias", columns)
            self._closer_bias = float(head.settings["closer_bias"])
            self._ngrams = head.arrays["ngrams"].astype(np.int8, copy=False)
            self._scale = _read_array(head, "scale", columns)
            self._ngrams_bias = _read_array(head, "ngrams_bias", columns)
            self._rarity: NDArray[np.float16] = head.arrays["rarity"].astype(np.float16, copy=False)
        except (KeyError, TypeError) as error:
            raise EncoderError(f"the jailbreak head lacks {error}") from None
        if self._ngrams.shape != (2 * self._buckets, columns) or len(self._rarity) != 2 * self._buckets:
            raise EncoderError(f"the jailbreak head's n-grams have shape {self._ngrams.shape}")

    @classmethod
    def load_file(cls, path: Path, encoder: TextEncoder) -> JailbreakHead:
        """Load `path`. Raises EncoderError for no jailbreak head, or one of another `encoder`."""
        head = HeadFile.load_file(path, kind="jailbreak")
        head.check_encoder(encoder)
        return cls(head)

    def classify_steps(
        self, text: str, encoding: TextEncoding, hits: Mapping[str, float]
    ) -> Steps[AttackReading]:
        """Read `text`, whose encoding is `encoding`, in steps, so that a long one does not block others.

        `hits`: see `AttackReader.read_attack`.
        """
        words = yield from self.classify_ngrams_steps(text)
        return self.combine_readings(words, [encoding], hits)

    def combine_readings(
        self, read: NgramReading, encodings: Sequence[TextEncoding], hits: Mapping[str, float]
    ) -> AttackReading:
        """Combine the n-grams `read` of a text with `encodings` of it or of its passages, and `hits`."""
        words, han = read.most_likely_attack, read.han
        parts = [self._read_states(encoding) for encoding in encodings] if han < 1 else []
        states = max(
            (logits for logits, _ in parts), key=lambda logits: float(logits[0]), default=np.zeros_like(words)
        )
        evidence = -sum(log(1 - min(confidence, 0.99)) for confidence in hits.values())
        logit = self._weights.logit(float(states[0]), float(words[0]), han, evidence)
        risk = 1 / (1 + exp(-max(-30.0, min(30.0, logit))))
        # The likeliest kind is as likely as an attack at all, the others in proportion.
        logits = ((1 - han) * states + words)[1:]
        shares = np.exp(logits - logits.max())
        kinds = {kind: risk * float(share) for kind, share in zip(self.labels, shares, strict=True)}
        return AttackReading(risk, kinds, max(sum(count for _, count in parts), len(read.passages)))

    def _read_states(self, encoding: TextEncoding) -> tuple[Floats, int]:
        """Return the logits of the part that is likeliest to attack, and the number of parts."""
        if not len(encoding.block_tokens):
            return np.zeros(len(self._states_bias), np.float32), 1
        windows, closer = segment_spans(len(encoding.block_tokens))
        rows = pool_segments(encoding.blocks, encoding.block_tokens, np.concatenate([windows, closer]))
        logits = rows @ self._states + self._states_bias
        logits[len(windows) :, 0] += self._closer_bias
        return logits[int(logits[:, 0].argmax())], len(windows)

    def classify_ngrams_steps(self, text: str) -> Steps[NgramReading]:
        """Read `text` by its n-grams alone, without an encoder, in steps."""
        passages = split_passages(text)
        rows, han_share = [], 0.0
        for at, passage in enumerate(passages):
            if at and at % _PASSAGES_A_STEP == 0:
                yield
            features = text_features(passage, self._buckets)
            columns, values = weighted_ngrams(features, self._rarity)
            weights = self._ngrams[columns].astype(np.float32)
            rows.append(self._ngrams_bias + (values @ weights) * self._scale)
            han_share += features.han_share / len(passages)
        return NgramReading(passages, np.stack(rows), min(1.0, han_share / HAN_ALONE))


def _read_array(head: HeadFile, name: str, *shape: int) -> Floats:
    array = head.arrays[name]
    if array.shape != shape:
        raise EncoderError(f"the jailbreak head's {name} has shape {array.shape}, not {shape}")
    return array.astype(np.float32)


WINDOW, STEP = 8, 4
"""Blocks."""
CLOSER = 2
CHARACTERS, OVERLAP = 1500, 200
"""Of the parts whose words are counted."""

Spans = NDArray[np.int64]


def segment_spans(blocks: int) -> tuple[Spans, Spans]:
    """Return [n, 2] and [m, 2]: begin and end, in blocks, of each window and each closer look."""
    begins = np.arange(0, max(blocks - WINDOW, 0) + STEP, STEP) if blocks > WINDOW else np.zeros(1, np.int64)
    windows = np.stack([begins, np.minimum(begins + WINDOW, blocks)], axis=1)
    if blocks <= CLOSER:
        return windows, np.zeros((0, 2), np.int64)
    begins = np.arange(blocks - CLOSER + 1)
    return windows, np.stack([begins, begins + CLOSER], axis=1)


def pool_segments(blocks: Floats, tokens: Ints, parts: Spans) -> Floats:
    """Return [n, 5 · size]: of each part what `blocks` has of each block, means by `tokens` and maxima."""
    fifth = blocks.shape[1] // 5
    means = np.r_[0 : 2 * fifth, 4 * fifth : 5 * fifth]
    totals = np.zeros((len(blocks) + 1, len(means)), np.float32)
    np.cumsum(blocks[:, means] * tokens[:, None].astype(np.float32), axis=0, out=totals[1:])
    counts = np.concatenate([[0], np.cumsum(tokens)]).astype(np.float32)
    begins, ends = parts[:, 0], parts[:, 1]
    found = np.empty((len(parts), 5 * fifth), np.float32)
    found[:, means] = (totals[ends] - totals[begins]) / (counts[ends] - counts[begins])[:, None]
    pooled_maxima = blocks[:, 2 * fifth : 4 * fifth]
    for row, (begin, end) in enumerate(parts):
        found[row, 2 * fifth : 4 * fifth] = pooled_maxima[begin:end].max(axis=0)
    return found


def split_passages(text: str) -> list[str]:
    """Split `text` into parts of at most `CHARACTERS`, each repeating the end of the one before it."""
    if len(text) <= CHARACTERS:
        return [text]
    step = CHARACTERS - OVERLAP
    return [text[at : at + CHARACTERS] for at in range(0, len(text) - OVERLAP, step)]


class HeadReader(AttackReader):
    """Reads with the shipped head, loaded with the first text, and the encoding that all heads share."""

    def __init__(
        self, encoders: EncoderService, path: Path = JAILBREAK_HEAD, *, in_part_from: int | None = None
    ) -> None:
        """`in_part_from`: characters from which of a text only `PASSAGES` are read by the encoder."""
        self._encoders = encoders
        self.in_part_from = in_part_from
        self._path = path
        self._head: JailbreakHead | None = None
        self._failure: str | None = None

    @property
    def attack_kinds(self) -> tuple[str, ...]:
        return KINDS if self._head is None else self._head.labels

    async def read_attack(self, text: str, hits: Mapping[str, float]) -> AttackReading:
        head = self._head or await self._load_head()
        is_long = self.in_part_from is not None and len(text) >= self.in_part_from
        if is_long and not self._encoders.is_asked_for(text):
            return await self._read_in_part(head, text, hits)
        encoding = await self._encoders.encode(text)
        return await run_steps(
            head.classify_steps(text, encoding, hits), inline=len(text) <= THREAD_MIN_CHARS
        )

    async def _read_in_part(self, head: JailbreakHead, text: str, hits: Mapping[str, float]) -> AttackReading:
        words = await run_steps(head.classify_ngrams_steps(text))
        passages = words.most_suspicious(PASSAGES) if words.han < 1 else []
        return head.combine_readings(words, [await self._encoders.encode(part) for part in passages], hits)

    def describe(self) -> dict[str, object]:
        state: dict[str, object] = {"reads": self._path.name}
        return state if self._failure is None else state | {"failure": self._failure}

    async def _load_head(self) -> JailbreakHead:
        """Load the head, unless that failed before. Raises EncoderError."""
        encoder = await self._encoders.wait_until_ready()
        if self._failure is not None:
            raise EncoderError(self._failure)
        try:
            self._head = JailbreakHead.load_file(self._path, encoder)
        except EncoderError as error:
            self._failure = str(error)
            _log.error("attacks are detected by known wordings only: %s", error)
            raise
        return self._head
