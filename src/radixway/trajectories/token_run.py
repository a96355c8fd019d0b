"""The payload of a tree's edge: a stretch of text, its tokens' widths, and their records."""

from array import array
from bisect import bisect_right
from collections.abc import Hashable
from dataclasses import dataclass
from operator import lt
from typing import Self

from radixway.trajectories.token_records import Spans, TokenLabel, Version, cut_spans

_PER_STRIDE = 6 + 1 + 4
"""Bytes of its key, its width and its log-probability."""
_PER_SPAN = 4 + 8
"""Of a second label and any more: its end, and a reference to it. The first is part of the node."""
_SLACK = 6
"""One byte in so many more lies idle in between, because edges grow; measured, on the resident set."""
PER_NODE = 850
"""Bytes that a node, its run and their containers take beside what they contain; measured."""


SEVERAL = object()
"""More sessions than one."""


@dataclass(slots=True)
class TokenRun:
    """Per stride, in order: `widths` one byte each, `logprobs` four (float32).

    key        | The | ▁cat | ▁sa | t |        strides
    widths       3     4      3     1
    text       "The▁cat▁sat"                   bytes, UTF-8
    spans      prompt ──────┤ sampled v7 ─┤
    """

    text: bytes
    """What the tokens stand for, hidden ones included."""
    widths: bytes
    """Bytes of the text that each stride stands for."""
    logprobs: bytes
    ends: bytes
    """Where each label ends, in strides, four bytes each: in tuples they would take ten times the memory."""
    labels: tuple[TokenLabel, ...]
    chunks: int = 0
    """Strides, all at the beginning, that are chunks of text and no tokens."""
    experts: tuple[tuple[int, bytes], ...] = ()
    """Routed experts, each with the stride after the last that they are for."""
    used: Version | None = None
    """The latest weights with which the run was used. Says what may be collected, not who sampled it."""
    clock: int = 0
    """When it was used last, in uses of the store."""
    whose: Hashable = None
    """The session that has a record up to its end, or `SEVERAL`: it is not lengthened by another."""

    @classmethod
    def from_tokens(
        cls,
        text: bytes,
        widths: bytes,
        logprobs: bytes,
        spans: Spans,
        chunks: int = 0,
        experts: tuple[tuple[int, bytes], ...] = (),
    ) -> Self:
        """A run that has not been used yet."""
        return cls(
            text, widths, logprobs, _pack_spans(spans), tuple(label for _, label in spans), chunks, experts
        )

    @property
    def spans(self) -> Spans:
        """Labels, each with the stride that it goes up to."""
        return tuple(zip(self._ends, self.labels, strict=True))

    @property
    def _ends(self) -> memoryview:
        return memoryview(self.ends).cast("I")

    def skip_hidden(self, strides: int) -> int:
        """The stride past the hidden tokens that follow the first `strides`."""
        ends = self._ends
        at = bisect_right(ends, strides)
        while at < len(ends) and self.labels[at].hidden:
            strides = ends[at]
            at += 1
        return strides

    @property
    def tokens(self) -> int:
        """The number of tokens."""
        return len(self.widths) - self.chunks

    @property
    def nbytes(self) -> int:
        """The memory it takes, as the store counts it; a node's own part not included."""
        size = len(self.widths) * _PER_STRIDE + len(self.text) + (len(self.labels) - 1) * _PER_SPAN
        size += sum(len(raw) for _, raw in self.experts)
        return size + size // _SLACK

    def mark_end(self, session: Hashable) -> None:
        """Note that `session` has a record up to its end."""
        self.whose = session if self.whose in (None, session) else SEVERAL

    def can_join(self, more: Self, longest: int, session: Hashable) -> bool:
        """May `more` of `session` be joined to it, for an edge of `longest` strides at most?"""
        if self.whose is not None and self.whose != session:
            return False
        return not self.chunks and not more.chunks and len(self.widths) + len(more.widths) <= longest

    def check(self, strides: int) -> None:
        """Assert that it describes so many strides, in words."""
        assert len(self.widths) == strides, "an edge has another number of widths than strides"
        assert len(self.logprobs) == 4 * strides, "an edge has another number of log-probabilities"
        assert sum(self.widths) == len(self.text), "the widths of an edge are not those of its text"
        assert len(self.ends) == 4 * len(self.labels), (
            "an edge has another number of labels than of their ends"
        )
        ends = self._ends
        assert ends[-1] == strides, "the labels of an edge do not cover it"
        assert all(map(lt, (0, *ends), ends)), "a label of an edge is for nothing"

    def split(self, at: int) -> tuple[Self, Self]:
        """Cut after `at` strides."""
        byte = sum(self.widths[:at])
        size = len(self.widths)
        upper = self.from_tokens(
            self.text[:byte],
            self.widths[:at],
            self.logprobs[: 4 * at],
            cut_spans(self.spans, 0, at),
            min(self.chunks, at),
            tuple((end, raw) for end, raw in self.experts if end <= at),
        )
        lower = self.from_tokens(
            self.text[byte:],
            self.widths[at:],
            self.logprobs[4 * at :],
            cut_spans(self.spans, at, size),
            max(self.chunks - at, 0),
            tuple((end - at, raw) for end, raw in self.experts if end > at),
        )
        for part in (upper, lower):
            part.used, part.clock = self.used, self.clock
        lower.whose = self.whose
        return upper, lower

    def join(self, more: Self) -> Self:
        """Continued by `more`, which has no chunks."""
        size = len(self.widths)
        kept = len(self.labels) - (self.labels[-1] == more.labels[0])
        return type(self)(
            self.text + more.text,
            self.widths + more.widths,
            self.logprobs + more.logprobs,
            self.ends[: 4 * kept] + array("I", [size + end for end in more._ends]).tobytes(),
            self.labels[:kept] + more.labels,
            self.chunks,
            self.experts + tuple((size + end, raw) for end, raw in more.experts),
            more.used,
            more.clock,
            self.whose,
        )


def _pack_spans(spans: Spans) -> bytes:
    return array("I", [end for end, _ in spans]).tobytes()
