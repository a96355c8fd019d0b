"""Everything personal in a text: recognisers for what has a form, a head or a model for the rest."""

import asyncio
import logging
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Protocol

from radixway.core.pipeline import GuardUnavailableError, PersonalDataSpan
from radixway.semantics.encoders import (
    SHARED_CHARACTERS,
    EncoderBusyError,
    EncoderError,
    EncoderService,
)
from radixway.semantics.encoders.classifiers import TokenReading, load_token_classifier
from radixway.semantics.encoders.classifiers.lazy_classifier import LazyClassifier
from radixway.semantics.guard.pii.labels import SOFT_TYPES, published_type
from radixway.semantics.guard.pii.pii_head import LAYERS, PII_HEAD, WORDS_HEAD, PiiHead, scan_partially
from radixway.semantics.guard.pii.recognisers import STRUCTURED_TYPES, find_structured_steps
from radixway.semantics.guard.step_executor import run_in_thread, run_steps

log = logging.getLogger(__name__)

_span_begin: Callable[[PersonalDataSpan], int] = attrgetter("begin")

THRESHOLD = 0.7
"""Confidence from which the published figures count a finding."""

_CALLED_SO = 0.9
"""Confidence of a postal code beside a word for it."""
_INLINE = 8_192
"""Characters that patterns and head can read on the event loop."""
_FEW = 1_000
"""Findings, likewise."""


class SoftTypeFinder(Protocol):
    """Finds the types of personal data that have no form."""

    @property
    def types(self) -> tuple[str, ...]:
        """Types that can be found; empty where they are not known yet."""
        ...

    @property
    def failure(self) -> str | None:
        """The reason why nothing will be found; None while it works."""
        ...

    async def find_soft_types(self, text: str) -> list[PersonalDataSpan]:
        """Return the findings in `text`, in its order. Raises EncoderError."""
        ...


class DefaultPersonalDataFinder:
    """A `pipeline.PersonalDataFinder`. Belongs to one event loop; nothing is loaded before the first text."""

    def __init__(
        self,
        encoders: EncoderService,
        *,
        model: Path | None = None,
        mapping: Path | None = None,
        head: Path = PII_HEAD,
        threshold: float = THRESHOLD,
        in_part_from: int | None = None,
    ) -> None:
        """`model`: a token classifier's directory in place of `head`, `mapping` its labels' file.

        `in_part_from`: see `HeadFinder`.
        """
        self.path = model or head
        """The file or directory of what finds the types that have no form."""
        self.threshold = threshold
        self.in_part_from = in_part_from
        """Characters from which a text is read in part; None for never."""
        self._soft: SoftTypeFinder = (
            HeadFinder(encoders, head, in_part_from=in_part_from)
            if model is None
            else ClassifierFinder(encoders, model, mapping)
        )
        self._logged_failure: str | None = None

    @property
    def types(self) -> tuple[str, ...]:
        """Types that can be found: those of the recognisers in any case."""
        return tuple(dict.fromkeys((*self._soft.types, *STRUCTURED_TYPES)))

    @property
    def failure(self) -> str | None:
        """The reason why only recognisers find anything; None while all works."""
        return self._soft.failure

    def describe(self) -> dict[str, object]:
        """Return what `/health` shows: what reads beside the recognisers, and why it cannot."""
        state: dict[str, object] = {"reads": self.path.name}
        return state if self.failure is None else state | {"failure": self.failure}

    async def find(self, text: str) -> Sequence[PersonalDataSpan]:
        """Return all findings in `text`. Raises GuardUnavailableError, and EncoderBusyError."""
        try:
            soft = await self._soft.find_soft_types(text)
        except EncoderBusyError:
            raise
        except EncoderError as error:
            if self.failure != self._logged_failure:
                self._logged_failure = self.failure
                log.error("personal data is found by recognisers only: %s", self.failure)
            raise GuardUnavailableError(str(error)) from error
        structured = await run_steps(find_structured_steps(text), inline=len(text) <= _INLINE)
        if len(structured) + len(soft) <= _FEW:
            return merge_findings(structured, soft, text, self.threshold)
        return await run_in_thread(merge_findings, structured, soft, text, self.threshold)


class HeadFinder:
    """Finds with the shipped head, over the encoder's pass that all readers share."""

    types = SOFT_TYPES

    def __init__(
        self,
        encoders: EncoderService,
        path: Path,
        *,
        in_part_from: int | None = None,
        words_path: Path = WORDS_HEAD,
    ) -> None:
        """The head is read with the first text.

        `in_part_from`: characters from which the head at `words_path` looks at all of a text, and the encoder
        reads only where that is in doubt; unless all of it is encoded for another caller anyway.
        """
        self._encoders = encoders
        self._path = path
        self._in_part_from = in_part_from
        self._words_path = words_path
        self._words: PiiHead | None = None
        self._head: PiiHead | None = None
        self.failure: str | None = None

    async def find_soft_types(self, text: str) -> list[PersonalDataSpan]:
        head = self._head or await self._load_head()
        words = await self._long_text_head(text)
        found: list[PersonalDataSpan] = []
        for begin, end in _split_long_text(text):
            is_complete = end - begin == len(text)
            part = text if is_complete else text[begin:end]
            if words is not None:
                spans = await self._encoders.run_work(partial(scan_partially, words, head, part))
            else:
                spans = await self._find_in_text(head, part, is_complete=is_complete)
            found += (replace(span, begin=span.begin + begin, end=span.end + begin) for span in spans)
        return found

    async def _find_in_text(self, head: PiiHead, text: str, *, is_complete: bool) -> list[PersonalDataSpan]:
        """Read all of a text, or of a part of one that is too long to be kept while the request lasts."""
        read = self._encoders.encode if is_complete else self._encoders.encode_unshared
        encoding = await read(text, layers=LAYERS)
        if len(text) <= _INLINE:
            return head.find_spans(text, encoding)
        return await self._encoders.run_work(lambda _: head.find_spans_steps(text, encoding))

    async def _long_text_head(self, text: str) -> PiiHead | None:
        """Return the head of words, if `text` is for it; after a failure all texts are read whole."""
        if self._in_part_from is None or len(text) < self._in_part_from or self._encoders.is_asked_for(text):
            return None
        if self._words is None:
            encoder = await self._encoders.wait_until_ready()
            try:
                self._words = await asyncio.to_thread(
                    PiiHead.load_file, self._words_path, encoder, self._path
                )
            except EncoderError as error:
                log.warning("long texts are encoded in full: %s", error)
                self._in_part_from = None
        return self._words

    async def _load_head(self) -> PiiHead:
        """Load the head, unless that failed before. Raises EncoderError."""
        encoder = await self._encoders.wait_until_ready()
        if self.failure is not None:
            raise EncoderError(self.failure)
        try:
            self._head = await asyncio.to_thread(PiiHead.load_file, self._path, encoder)
        except EncoderError as error:
            self.failure = str(error)
            raise
        return self._head


class ClassifierFinder:
    """Finds with a token classifier in transformers, its labels under the published names."""

    def __init__(self, encoders: EncoderService, path: Path, mapping: Path | None = None) -> None:
        """Loaded with the first text, in a thread of its own."""
        self._classifier: LazyClassifier[TokenReading] = LazyClassifier(
            encoders, path, load_token_classifier, mapping
        )

    @property
    def types(self) -> tuple[str, ...]:
        loaded = self._classifier.loaded
        labels = () if loaded is None else loaded.labels
        return tuple(dict.fromkeys(published_type(label) for label in labels if label not in ("O", "NO_PII")))

    @property
    def failure(self) -> str | None:
        return self._classifier.failure

    async def find_soft_types(self, text: str) -> list[PersonalDataSpan]:
        reading = await self._classifier.classify_text(text)
        return [
            PersonalDataSpan(published_type(span.label), span.begin, span.end, span.confidence)
            for span in reading.spans(0.0)
            if any(character.isalnum() for character in text[span.begin : span.end])
        ]


def merge_findings(
    structured: Sequence[PersonalDataSpan], soft: Sequence[PersonalDataSpan], text: str, threshold: float
) -> list[PersonalDataSpan]:
    """Merge findings in order without overlap: first what is sure of its form counts, then the surer one.

    Of a soft span that a sure structured one cuts, the longer rest stays: a name before an address of mail.
    Streets and postal codes within an address that the head is sure of are parts of it.
    """
    addresses = [span for span in soft if span.type == "STREET_ADDRESS" and span.confidence >= threshold]
    ranked = sorted(
        (span for span in structured if not _is_part_of_address(span, addresses)),
        key=lambda span: (span.confidence >= threshold, span.confidence),
        reverse=True,
    )
    sure = [span for span in ranked if span.confidence >= threshold]
    others = sorted([*ranked[len(sure) :], *soft], key=attrgetter("confidence"), reverse=True)
    return _without_overlap([*sure, *others], text)


def _is_part_of_address(found: PersonalDataSpan, addresses: list[PersonalDataSpan]) -> bool:
    """Return whether it lies in one of `addresses`, which are ordered and disjoint. A labelled code stands
    for itself."""
    if found.type != "STREET_ADDRESS" and (found.type != "ZIP_CODE" or found.confidence >= _CALLED_SO):
        return False
    before = bisect_right(addresses, found.begin, key=_span_begin)
    return before > 0 and found.end <= addresses[before - 1].end


def _without_overlap(ranked: Sequence[PersonalDataSpan], text: str) -> list[PersonalDataSpan]:
    """Drop overlaps: the earlier in `ranked` stays. Makes O(n log n) comparisons."""
    chosen: list[PersonalDataSpan] = []
    for span in ranked:
        rest: PersonalDataSpan | None = span
        while rest is not None and (other := _overlapped(chosen, rest)) is not None:
            rest = _remaining_span(rest, other, text) if rest.type in SOFT_TYPES else None
        if rest is not None:
            insort(chosen, rest, key=_span_begin)
    return chosen


def _overlapped(chosen: list[PersonalDataSpan], span: PersonalDataSpan) -> PersonalDataSpan | None:
    """Return one of `chosen`, in order and without overlap, that overlaps `span`."""
    after = bisect_left(chosen, span.end, key=_span_begin)
    before = chosen[after - 1] if after else None
    return before if before is not None and before.end > span.begin else None


def _remaining_span(span: PersonalDataSpan, other: PersonalDataSpan, text: str) -> PersonalDataSpan | None:
    """Return the longer part of `span` that `other` leaves; None where it has no letter."""
    before, after = (span.begin, min(span.end, other.begin)), (max(span.begin, other.end), span.end)
    begin, end = max(before, after, key=lambda part: part[1] - part[0])
    while begin < end and not text[begin].isalnum():
        begin += 1
    while begin < end and not text[end - 1].isalnum():
        end -= 1
    if not any(character.isalpha() for character in text[begin:end]):
        return None
    return replace(span, begin=begin, end=end)


def _split_long_text(text: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a long text, which end before a blank where there is one."""
    begin = 0
    while len(text) - begin > SHARED_CHARACTERS:
        latest = begin + SHARED_CHARACTERS
        blank = max(text.rfind("\n", latest - 2000, latest), text.rfind(" ", latest - 200, latest))
        end = blank if blank > begin else latest
        yield begin, end
        begin = end
    yield begin, len(text)
