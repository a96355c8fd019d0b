"""How well structured personal data is found by its form alone, type by type, and where it is found amiss."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.recognisers import find_structured

STRUCTURED = (
    "EMAIL_ADDRESS",
    "PHONE_NUMBER",
    "CREDIT_CARD",
    "IBAN_CODE",
    "US_SSN",
    "US_DRIVER_LICENSE",
    "IP_ADDRESS",
    "DOMAIN_NAME",
    "ZIP_CODE",
    "CN_ID_CARD",
    "CN_BANK_CARD",
)
"""The types that have a form; streets, dates and ages have one only now and then."""


class Span(Protocol):
    """A labelled stretch of a text, in characters."""

    @property
    def type(self) -> str: ...
    @property
    def begin(self) -> int: ...
    @property
    def end(self) -> int: ...


class Row(Protocol):
    """A labelled text."""

    @property
    def text(self) -> str: ...
    @property
    def spans(self) -> Sequence[Span]: ...


@dataclass(slots=True)
class StructuredCounts:
    """Of one type."""

    labelled: int = 0
    reached: int = 0
    """Labelled spans that a found one of their type overlaps."""
    exact: int = 0
    """Of these, found to the character."""
    found: int = 0
    right: int = 0
    """Found spans that overlap a labelled one of their type, and postal codes within a labelled address."""

    @property
    def precision(self) -> float | None:
        """None where nothing was found."""
        return self.right / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        """None where nothing is labelled."""
        return self.reached / self.labelled if self.labelled else None


@dataclass(slots=True)
class StructuredFigures:
    """Of one set."""

    rows: int = 0
    flagged: int = 0
    """Rows where something was found that is not labelled."""
    types: dict[str, StructuredCounts] = field(default_factory=dict)
    """The types that are labelled or were found."""
    missed: list[tuple[int, str, int, int]] = field(default_factory=list)
    """Labelled spans that were not reached: row, type, begin, end; to be read beside the labels."""
    false: list[tuple[int, str, int, int]] = field(default_factory=list)
    """Found spans that are not labelled, the same way."""

    @property
    def overall(self) -> StructuredCounts:
        """All types together."""
        columns = ("labelled", "reached", "exact", "found", "right")
        return StructuredCounts(
            *(sum(getattr(each, name) for each in self.types.values()) for name in columns)
        )

    @property
    def flagged_share(self) -> float:
        """Of the rows; 0 where there are none."""
        return self.flagged / self.rows if self.rows else 0.0


def count_structured(
    rows: Iterable[Row],
    threshold: float = 0.7,
    find: Callable[[str], Sequence[PersonalDataSpan]] = find_structured,
) -> StructuredFigures:
    """What `find` finds of the structured types from `threshold` on, beside the labels."""
    figures = StructuredFigures()
    for number, row in enumerate(rows):
        found = [each for each in find(row.text) if each.type in STRUCTURED and each.confidence >= threshold]
        _count_labelled(figures, number, row, found)
        _count_found(figures, number, row, found)
        figures.rows += 1
    return figures


def _count_labelled(
    figures: StructuredFigures, number: int, row: Row, found: Sequence[PersonalDataSpan]
) -> None:
    for span in row.spans:
        if span.type not in STRUCTURED:
            continue
        counts = figures.types.setdefault(span.type, StructuredCounts())
        counts.labelled += 1
        reached = [each for each in found if each.type == span.type and _overlap(each, span)]
        counts.exact += any((each.begin, each.end) == (span.begin, span.end) for each in reached)
        if reached:
            counts.reached += 1
        else:
            figures.missed.append((number, span.type, span.begin, span.end))


def _count_found(
    figures: StructuredFigures, number: int, row: Row, found: Sequence[PersonalDataSpan]
) -> None:
    amiss = False
    for each in found:
        counts = figures.types.setdefault(each.type, StructuredCounts())
        counts.found += 1
        if any(_is_right(each, span) for span in row.spans):
            counts.right += 1
        else:
            amiss = True
            figures.false.append((number, each.type, each.begin, each.end))
    figures.flagged += amiss


def _is_right(found: PersonalDataSpan, span: Span) -> bool:
    if found.type == "ZIP_CODE" and span.type == "STREET_ADDRESS":
        return span.begin <= found.begin and found.end <= span.end
    return found.type == span.type and _overlap(found, span)


def _overlap(found: PersonalDataSpan, span: Span) -> bool:
    return found.begin < span.end and span.begin < found.end
