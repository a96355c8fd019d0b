"""How well personal data is found: by type, spans that overlap and spans that are exact; and false alarms."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from evaluation.lines import numbered_lines
from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.sequence_tagger import join_address_parts

ROWS = Path(__file__).parent / "data" / "pii.jsonl"
"""Prompts with and without personal data, in English and Chinese, that nothing was trained on; see NOTICE."""

FOLDED = {
    "ADDRESS": "STREET_ADDRESS",
    "LOCATION": "GPE",
    "URL": "DOMAIN_NAME",
    "CN_PHONE_NUMBER": "PHONE_NUMBER",
}
"""What corpora call the published types."""
BEYOND = frozenset(["TITLE", "PREFIX"])
"""What corpora label and nobody asked for."""
Find = Callable[[str], Awaitable[Sequence[PersonalDataSpan]]]


@dataclass(slots=True, frozen=True)
class Labelled:
    """A stretch of a text that is personal data."""

    type: str
    begin: int
    """In characters."""
    end: int


@dataclass(slots=True, frozen=True)
class LabelledText:
    """A text of which is known what personal data it has."""

    text: str
    spans: tuple[Labelled, ...]
    set: str
    """Figures are told for each set apart."""
    names_nobody: bool | None = None
    """Of texts that have nothing personal: whether somebody is named all the same, a ruler or an author."""


@dataclass(slots=True)
class Counts:
    """Of one type."""

    labelled: int = 0
    reached: int = 0
    """Labelled spans that a found one overlaps."""
    found: int = 0
    right: int = 0
    """Found spans that overlap a labelled one."""
    exact: int = 0
    """Found spans that are a labelled one, to the character."""

    @property
    def precision(self) -> float:
        """Of the found ones, how many overlap a labelled one; 0 where none was found."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """Of the labelled ones, how many are overlapped; 0 where there are none."""
        return self.reached / self.labelled if self.labelled else 0.0

    @property
    def overlap_f1(self) -> float:
        """The harmonic mean of both."""
        both = self.precision + self.recall
        return 2 * self.precision * self.recall / both if both else 0.0

    @property
    def exact_f1(self) -> float:
        """The same, of spans that agree to the character."""
        return 2 * self.exact / (self.labelled + self.found) if self.exact else 0.0

    def add(self, other: Counts) -> None:
        """Those of another type to these."""
        self.labelled += other.labelled
        self.reached += other.reached
        self.found += other.found
        self.right += other.right
        self.exact += other.exact


@dataclass(slots=True)
class SetFigures:
    """One set, searched."""

    rows: int = 0
    types: dict[str, Counts] = field(default_factory=dict)
    """The types that the set labels."""
    free: int = 0
    """Rows that are said to have nothing personal."""
    nobody: int = 0
    """Of these, how many name nobody: what PERSON is counted on."""
    flagged: dict[str, int] = field(default_factory=dict)
    """By type, in how many one was found."""

    def told(self) -> dict[str, object]:
        """For a file: counts and shares by type, no text."""
        kinds = {**self.types, "all": self.overall()} if self.types else {}
        return {
            "rows": self.rows,
            "types": {
                kind: {
                    **asdict(counts),
                    "precision": counts.precision,
                    "recall": counts.recall,
                    "overlap_f1": counts.overlap_f1,
                    "exact_f1": counts.exact_f1,
                }
                for kind, counts in sorted(kinds.items())
            },
            "free": self.free,
            "nobody": self.nobody,
            "flagged": {
                kind: {"rows": rows, "share": self.share_flagged(kind)} for kind, rows in self.flagged.items()
            },
        }

    def share_flagged(self, kind: str) -> float:
        """Of the rows without anything personal, in how many there was a `kind`."""
        rows = self.nobody if kind == "PERSON" else self.free
        return self.flagged.get(kind, 0) / rows if rows else 0.0

    def overall(self, types: Collection[str] | None = None) -> Counts:
        """All types together, or some."""
        total = Counts()
        for name, counts in self.types.items():
            if types is None or name in types:
                total.add(counts)
        return total


def read_rows(path: Path) -> list[LabelledText]:
    """Rows of a JSONL file, gzipped or not: `text`, `spans` of `type`, `begin` (or `start`) and `end`.

    `set` names the set, else the file does; `names_nobody`, true or not, where there is nothing personal.
    Parts of one address are one span, however they were labelled. Raises ValueError that names the line.
    """
    rows = []
    for number, line in numbered_lines(path):
        try:
            rows.append(_row(json.loads(line), path.name.split(".")[0]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path}, line {number}: needs `text` and `spans` of type, begin, end: {error}"
            ) from None
    if not rows:
        raise ValueError(f"{path} has no rows")
    return rows


async def evaluate_pii(
    find: Find, rows: Iterable[LabelledText], threshold: float, thresholds: Mapping[str, float] | None = None
) -> dict[str, SetFigures]:
    """Figures by set, in the order in which sets first occur; findings below `threshold` are none.

    A whole address is one span, on both sides: corpora label its place and code apart, or not. Raises what
    `find` raises.
    """
    rows = [replace(row, spans=one_address(row.spans, row.text)) for row in rows]
    labelled: dict[str, set[str]] = {}
    for row in rows:
        labelled.setdefault(row.set, set()).update(span.type for span in row.spans)
    figures: dict[str, SetFigures] = {name: SetFigures() for name in labelled}
    for row in rows:
        found = [
            Labelled(each.type, each.begin, each.end)
            for each in await find(row.text)
            if each.confidence >= (thresholds or {}).get(each.type, threshold)
        ]
        whole = one_address(merged(found, row.text), row.text)
        count(figures[row.set], row, whole, labelled[row.set])
    return figures


def count(figures: SetFigures, row: LabelledText, found: Sequence[Labelled], types: Collection[str]) -> None:
    """One row's findings; types that its set does not label are judged only where nothing may be found."""
    figures.rows += 1
    if row.names_nobody is not None:
        figures.free += 1
        figures.nobody += row.names_nobody
        for name in sorted({span.type for span in found} - ({"PERSON"} if not row.names_nobody else set())):
            figures.flagged[name] = figures.flagged.get(name, 0) + 1
    exact = set(row.spans)
    for span in row.spans:
        counts = figures.types.setdefault(span.type, Counts())
        counts.labelled += 1
        counts.reached += _meets(span, found)
    for span in found:
        if span.type in types:
            counts = figures.types.setdefault(span.type, Counts())
            counts.found += 1
            counts.right += _meets(span, row.spans)
            counts.exact += span in exact


def merged(spans: Iterable[Labelled], text: str) -> tuple[Labelled, ...]:
    """In order; parts of an address with nothing but blanks and commas between them are one."""
    found: list[Labelled] = []
    for span in sorted(spans, key=lambda each: each.begin):
        last = found[-1] if found else None
        apart = last is None or last.type != span.type or span.type != "STREET_ADDRESS"
        if last is None or apart or text[last.end : span.begin].strip(" ,\n\t>"):
            found.append(span)
        else:
            found[-1] = Labelled(span.type, last.begin, max(last.end, span.end))
    return tuple(found)


def one_address(spans: Sequence[Labelled], text: str) -> tuple[Labelled, ...]:
    """`spans`, in order, with a street's place and code as parts of it: see `whole_addresses`."""
    told = [PersonalDataSpan(span.type, span.begin, span.end, 1.0) for span in spans]
    return tuple(Labelled(each.type, each.begin, each.end) for each in join_address_parts(told, text))


def _meets(span: Labelled, others: Sequence[Labelled]) -> bool:
    return any(
        span.type == other.type and span.begin < other.end and other.begin < span.end for other in others
    )


def _row(told: dict[str, object], name: str) -> LabelledText:
    text, spans = told["text"], told["spans"]
    if not isinstance(text, str) or not isinstance(spans, list):
        raise ValueError("`text` must be a string, `spans` a list")
    labelled = [
        Labelled(
            FOLDED.get(each["type"], each["type"]),
            int(each.get("begin", each.get("start"))),
            int(each["end"]),
        )
        for each in spans
    ]
    kept = [span for span in labelled if span.type not in BEYOND]
    return LabelledText(text, merged(kept, text), str(told.get("set", name)), _claim(told))


def _claim(told: dict[str, object]) -> bool | None:
    claim = told.get("names_nobody")
    if claim is not None and not isinstance(claim, bool):
        raise ValueError("`names_nobody` is true or false")
    return claim
