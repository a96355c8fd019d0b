"""The record of a token besides its id: where it came from, and the trajectory of all its tokens.

Which weight version is older: by number where both are numbers, else in the order they came.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import groupby
from typing import Literal, NamedTuple, TypeAlias

Version: TypeAlias = int | str
"""A weight version as its owner writes it: a number, or any text."""

Source: TypeAlias = Literal["sampled", "prompt", "retokenized"]
"""`sampled`: the model made it. `prompt`: the sampler saw it. `retokenized`: made from text just now."""


class TokenLabel(NamedTuple):
    """The properties that the tokens of a stretch share."""

    source: Source
    mask: int
    """1: to be trained on, 0: not."""
    version: Version | None = None
    """The weights that sampled it; never changed afterwards."""
    hidden: bool = False
    """The worker did not show its text: a stop token, or what follows the stop string."""


@lru_cache(maxsize=256, typed=True)
def shared_label(
    source: Source, mask: int, version: Version | None = None, hidden: bool = False
) -> TokenLabel:
    """Return the label with these properties, one object for all its tokens: each takes 90 bytes."""
    return TokenLabel(source, mask, version, hidden)


Spans: TypeAlias = tuple[tuple[int, TokenLabel], ...]
"""Labels in order, each with the position, counted from the beginning of the stretch, that it goes up to."""


@dataclass(slots=True)
class Trajectory:
    """Tokens of one conversation, from its beginning, and all that is known of each. Lists are per token."""

    ids: array[int] = field(default_factory=lambda: array("I"))
    logprobs: array[float] = field(default_factory=lambda: array("f"))
    """Natural logarithms; 0 for tokens of a prompt, NaN where a worker did not tell."""
    spans: Spans = ()
    ambiguous: bool = False
    """The text was sampled in several ways and no session decided: this is the latest."""
    experts: list[tuple[int, bytes]] = field(default_factory=list)
    """Routed experts as the worker sent them, each with the position of the token after its last."""

    @property
    def mask(self) -> list[int]:
        """The loss mask."""
        mask: list[int] = []
        for length, label in span_lengths(self.spans):
            mask += [label.mask] * length
        return mask

    @property
    def versions(self) -> list[Version | None]:
        """Return the weight version that sampled each token; None for tokens that were not sampled."""
        versions: list[Version | None] = []
        for length, label in span_lengths(self.spans):
            versions += [label.version] * length
        return versions


def span_lengths(spans: Spans) -> Iterable[tuple[int, TokenLabel]]:
    """The length of each of `spans`, in tokens, with its label."""
    start = 0
    for end, label in spans:
        yield end - start, label
        start = end


def join_spans(first: Spans, more: Spans) -> Spans:
    """`first` continued by `more`."""
    if not first or not more:
        return first or more
    start = first[-1][0]
    shifted = tuple((start + end, label) for end, label in more)
    return (first[:-1] if first[-1][1] == shifted[0][1] else first) + shifted


def cut_spans(spans: Spans, start: int, end: int) -> Spans:
    """The part from `start` to `end`, counted from `start`."""
    if start >= end:
        return ()
    return tuple(
        (min(upto, end) - start, label)
        for (upto, label), begin in zip(spans, (0, *(upto for upto, _ in spans)), strict=False)
        if upto > start and begin < end
    )


def spans_from_labels(labels: Iterable[TokenLabel]) -> Spans:
    """Spans from `labels`, one for each token."""
    spans, end = [], 0
    for label, run in groupby(labels):
        end += sum(1 for _ in run)
        spans.append((end, label))
    return tuple(spans)


def sampled_spans(
    count: int,
    version: Version | None,
    *,
    spans: Sequence[tuple[int, int, Version]] = (),
) -> Spans:
    """Labels for `count` sampled tokens: of `version`, or by spans [start, end) of versions where given.

    Raises ValueError for spans that leave the tokens, overlap or come out of order.
    """
    parts: list[tuple[int, Version | None]] = []
    at = 0
    for start, end, named in spans:
        if not at <= start <= end <= count:
            raise ValueError(f"weight versions: the span {start} to {end} does not fit {count} tokens")
        parts += (start, version), (end, named)
        at = end
    labelled: list[tuple[int, TokenLabel]] = []
    at = 0
    for end, made_by in (*parts, (count, version)):
        if end > at:
            label = shared_label("sampled", 1, made_by)
            if labelled and labelled[-1][1] == label:
                labelled.pop()
            labelled.append((end, label))
            at = end
    return tuple(labelled)


class WeightVersions:
    """The versions that were met. Text of digits counts as its number; `None` is older than all."""

    def __init__(self) -> None:
        self._arrivals: dict[Version, int] = {}
        self.latest: Version | None = None
        """The one met last that was newer than all before."""

    def add_version(self, version: Version | None) -> None:
        """Note that tokens of this version exist."""
        if version is None or version in self._arrivals:
            return
        self._arrivals[version] = len(self._arrivals)
        if self.latest is None or self.version_age(self.latest, version) > 0:
            self.latest = version

    def version_age(self, version: Version | None, current: Version) -> int:
        """The number of versions that `version` is behind `current`; negative if it is ahead."""
        number, now = _version_number(version), _version_number(current)
        if number is not None and now is not None:
            return now - number
        arrivals = self._arrivals
        arrival = -1 if version is None else arrivals.get(version, len(arrivals))
        return arrivals.get(current, len(arrivals)) - arrival


def _version_number(version: Version | None) -> int | None:
    if isinstance(version, int):
        return version
    return int(version) if version is not None and version.isdecimal() and len(version) < 20 else None
