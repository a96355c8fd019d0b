"""Tokens as they are handed to the store, checked, packed and ready to be compared with what is there."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from radixway.core.radix import common_prefix
from radixway.trajectories.text_match import Place
from radixway.trajectories.token_records import (
    Spans,
    TokenLabel,
    Version,
    cut_spans,
    join_spans,
    shared_label,
)
from radixway.trajectories.token_run import STRIDE, TokenRun, pack_tokens, to_token_ids, unpack_tokens


@dataclass(slots=True)
class TokenSegment:
    """A stretch of tokens and their records; lists are per token."""

    ids: array[int]
    text: bytes
    logprobs: bytes
    """float32 each."""
    sampled: bytes
    """1 for each token that the model made."""
    spans: Spans | None
    """None where only a loss mask is known, `sampled`; its ones are then of `version` if they are new."""
    version: Version | None = None
    experts: tuple[tuple[int, bytes], ...] = ()

    @classmethod
    def from_labels(
        cls,
        ids: Sequence[int],
        text: bytes,
        logprobs: Sequence[float] | None,
        spans: Spans,
        experts: tuple[tuple[int, bytes], ...] = (),
    ) -> TokenSegment:
        """Build from a label per token. Raises ValueError where lengths differ."""
        tokens = to_token_ids(ids)
        count = spans[-1][0] if spans else 0
        sampled = bytearray(count)
        start = 0
        for end, label in spans:
            if label.source == "sampled":
                sampled[start:end] = b"\1" * (end - start)
            start = end
        packed = _packed_logprobs(logprobs, len(tokens))
        given = cls(tokens, text, packed, bytes(sampled), spans, None, experts)
        if count != len(tokens):
            raise ValueError(f"{len(tokens)} tokens have {count} labels")
        return given

    @classmethod
    def from_mask(
        cls,
        ids: Sequence[int],
        text: bytes,
        logprobs: Sequence[float] | None,
        mask: Sequence[int] | None,
        version: Version | None,
    ) -> TokenSegment:
        """Build from a loss mask, in which 1 is what the model made. Raises ValueError where lengths
        differ."""
        tokens = to_token_ids(ids)
        try:
            sampled = bytes(len(tokens)) if mask is None else bytes(list(mask))  # not an array's memory
        except (TypeError, ValueError):
            raise ValueError("loss_mask must be a list of 0 and 1") from None
        if sampled.strip(b"\0\1"):
            raise ValueError("loss_mask must be a list of 0 and 1")
        if len(sampled) != len(tokens):
            raise ValueError(f"{len(tokens)} tokens have a loss mask of {len(sampled)}")
        return cls(tokens, text, _packed_logprobs(logprobs, len(tokens)), sampled, None, version)

    def skip_prefix(self, tokens: int, text: int) -> TokenSegment:
        """The rest after so many `tokens` and bytes of `text`."""
        spans = None if self.spans is None else cut_spans(self.spans, tokens, len(self.ids))
        return TokenSegment(
            self.ids[tokens:],
            self.text[text:],
            self.logprobs[4 * tokens :],
            self.sampled[tokens:],
            spans,
            self.version,
            tuple((end - tokens, raw) for end, raw in self.experts if end > tokens),
        )

    def starts_with(self, earlier: TokenSegment) -> bool:
        """Does it begin with all of `earlier`, records included?"""
        count = len(earlier.ids)
        return (
            self.spans is None
            and self.text.startswith(earlier.text)
            and self.ids[:count] == earlier.ids
            and self.sampled.startswith(earlier.sampled)
            and self.logprobs.startswith(earlier.logprobs)
        )

    def label_spans(self, hidden: Sequence[int] = ()) -> Spans:
        """A label for every token, those at the places in `hidden` being hidden."""
        spans = self.spans
        if spans is None:
            spans = _spans_of_mask(self.sampled, self.version)
        if len(hidden) == 1 and hidden[0] == len(self.ids) - 1:  # a stop token: nearly always
            *shown_before, (end, label) = spans
            is_alone = end - 1 == (shown_before[-1][0] if shown_before else 0)
            last = shared_label(label.source, label.mask, label.version, True)
            return (*shown_before, *(() if is_alone else ((end - 1, label),)), (end, last))
        shown: Spans = ()
        at = 0
        for place in hidden:
            ((_, label),) = cut_spans(spans, place, place + 1)
            shown = join_spans(shown, cut_spans(spans, at, place))
            shown = join_spans(shown, ((1, shared_label(label.source, label.mask, label.version, True)),))
            at = place + 1
        return join_spans(shown, cut_spans(spans, at, len(self.ids))) if hidden else spans

    def first_mismatch(self, run: TokenRun, count: int, at: int) -> int:
        """Return, of `count` tokens of `run`, equal to those from `at` on here, the first whose records
        differ.

        A token that is only context here agrees with any; one that was sampled, with one that was sampled by
        the same weights with the same log-probability."""
        start = run.chunks
        for (end, label), begin in _with_starts(run.spans):
            low, high = max(begin - start, 0), min(end - start, count)
            if low >= high or 1 not in self.sampled[at + low : at + high]:
                continue
            same = self._mismatch_in_span(run, label, low, high, at)
            if same < high:
                return same
        return count

    def _mismatch_in_span(self, run: TokenRun, label: TokenLabel, low: int, high: int, at: int) -> int:
        """Return the first token of [low, high) in `run`, all labelled `label`, whose record differs, or
        `high`."""
        first = self.sampled.index(1, at + low) - at
        if label.source != "sampled":
            return first
        if self.spans is not None:
            for (end, mine), begin in _with_starts(self.spans):
                if mine.source == "sampled" and mine.version != label.version:
                    first_of_another = max(begin - at, low)
                    if first_of_another < min(end - at, high):
                        high = first_of_another
                        break
        theirs = run.logprobs[4 * (run.chunks + low) : 4 * (run.chunks + high)]
        here = 4 * (at + low)
        if self.logprobs.startswith(theirs, here):
            return high
        if self.logprobs[here : here + 4] != theirs[:4]:
            return max(low, first)
        return max(low + common_prefix(theirs, self.logprobs, here, 4) // 4, first)


class PackedIds:
    """A sequence of ids, to be compared with edges of the tree."""

    def __init__(self, ids: array[int]) -> None:
        self.key = pack_tokens(ids)
        self._raw: bytes | None = None
        self._ids = ids

    def covers_edge(self, node: Place, at: int) -> bool:
        """Are the tokens of the whole edge of `node` those from `at` on?"""
        edge = node.key
        if self.key.startswith(edge, at * STRIDE):
            return True
        chunks = node.payload.chunks
        if not chunks and edge[:4] != self.key[at * STRIDE : at * STRIDE + 4]:
            return False
        if self._raw is None:
            self._raw = self._ids.tobytes()
        return self._raw.startswith(unpack_tokens(edge[chunks * STRIDE :]), 4 * at)


def _spans_of_mask(mask: bytes, version: Version | None) -> Spans:
    labels = shared_label("prompt", 0), shared_label("sampled", 1, version)
    spans, end = [], 0
    while end < len(mask):
        one = mask[end]
        change = mask.find(1 - one, end)
        end = change if change >= 0 else len(mask)
        spans.append((end, labels[one]))
    return tuple(spans)


def _packed_logprobs(logprobs: Sequence[float] | None, count: int) -> bytes:
    if logprobs is None:
        return bytes(4 * count)
    if isinstance(logprobs, array) and logprobs.typecode == "f":
        packed = logprobs.tobytes()
    else:
        try:
            packed = struct.pack(f"{len(logprobs)}f", *logprobs)  # a third of what array("f", …) takes
        except (struct.error, OverflowError) as error:
            raise ValueError(f"log-probabilities must be numbers: {error}") from None
    if len(packed) != 4 * count:
        raise ValueError(f"{count} tokens have {len(logprobs)} log-probabilities")
    return packed


def _with_starts(spans: Spans) -> list[tuple[tuple[int, TokenLabel], int]]:
    return list(zip(spans, (0, *(end for end, _ in spans)), strict=False))
