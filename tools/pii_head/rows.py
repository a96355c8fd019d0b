"""Labelled text: what was given, with its sources' licences, and texts without personal data."""

import gzip
import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from radixway.guard.pii.tagging import SOFT_TYPES
from radixway.guard.pii.words import BIT, gazetteer

HELD_OUT_SHARE = 0.2
"""Of the templates, and of the texts that have none."""
EVERY_TYPE = frozenset(SOFT_TYPES)
NAMES = frozenset(["PERSON", "ORGANIZATION", "GPE"])
"""What news corpora's annotators were asked for."""
LONGEST = 1500
"""Characters of a text that are read."""

_SOMETHING_ELSE = BIT["eponym"] | BIT["month"] | BIT["weekday"] | BIT["place"] | BIT["nrp"]
_FOLDED = {"ADDRESS": "STREET_ADDRESS", "LOCATION": "GPE"}
_SLOT = re.compile(r"\{\{.*?\}\}|\{.*?\}")
_HANDLE = re.compile(r"@ ?\w+")
_NEGATIVES = (
    ("domain/mmlu_pro_test", "question", 5000),
    ("routing/routellm_mmlu_correctness", "question", 4000),
    ("routing/clinc150", "text", 5000),
    ("routing/banking77", "text", 1500),
    ("routing/arena_hard_v0.1", "prompt", 500),
    ("tools/metatool_single", "query", 3000),
    ("jailbreak/cyberseceval_frr_benign", "text", 300),
    ("jailbreak/alpaca_seed_benign", "text", 175),
    ("jailbreak/awesome_chatgpt_prompts_benign", "text", 118),
)
CHINESE_NEGATIVES = (("domain/zh_gaokao_bench", "question", 1500), ("domain/zh_agieval", "question", 2500))


@dataclass(frozen=True, slots=True)
class Labelled:
    """A stretch of a text and its type."""

    type: str
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Row:
    """One text."""

    text: str
    spans: tuple[Labelled, ...]
    source: str
    group: str
    """Its template, or itself: all of a group stand on one side of the split."""
    annotated: frozenset[str] = EVERY_TYPE
    """Types that were looked for: of the others nothing is known where there is no span."""
    unknown: tuple[tuple[int, int], ...] = ()
    """Stretches that teach nothing."""
    weight: float = 1.0

    @property
    def is_held_out(self) -> bool:
        """Whether figures are told on it, and nothing trained."""
        digest = hashlib.sha256(self.group.encode("utf-8", "replace")).digest()
        return int.from_bytes(digest[:4], "big") < HELD_OUT_SHARE * 2**32


def template_group(template: str) -> str:
    """One name for a template in whatever file it stands."""
    return re.sub(r"[^a-z{}]", "", _SLOT.sub("{}", template.replace("\\n", "\n")).lower())


def presidio_rows(data: Path, name: str) -> list[Row]:
    """`synth_v2`, `generated_large` or `generated_small`."""
    rows = []
    for row in _read(data / "pii" / f"presidio_{name}.jsonl.gz"):
        spans = [
            Labelled(_FOLDED.get(each["type"], each["type"]), each["start"], each["end"])
            for each in row["spans"]
        ]
        kept = merged([span for span in spans if span.type in EVERY_TYPE], row["text"])
        unknown = tuple(
            (span.begin, span.end)
            for span in spans
            if span.type == "GPE" and row["text"][span.begin : span.end] == "nan"
        )
        annotated = EVERY_TYPE if name == "synth_v2" else EVERY_TYPE - {"NRP", "AGE", "ZIP_CODE"}
        rows.append(Row(row["text"], kept, name, template_group(row["masked"]), annotated, unknown))
    return rows


def merged(spans: list[Labelled], text: str) -> tuple[Labelled, ...]:
    """In order; parts of one address, between which only blanks stand, as one."""
    found: list[Labelled] = []
    for span in sorted(spans, key=lambda each: each.begin):
        last = found[-1] if found else None
        if (
            last
            and last.type == span.type == "STREET_ADDRESS"
            and not text[last.end : span.begin].strip(" ,\n>")
        ):
            found[-1] = Labelled(span.type, last.begin, span.end)
        elif not last or span.begin >= last.end:
            found.append(span)
    return tuple(found)


def human_rows(data: Path) -> Iterator[Row]:
    """Texts that people annotated with persons, organisations and places."""
    for path in sorted((data / "pii").glob("ner_*.jsonl.gz")):
        source = path.name.removeprefix("ner_").removesuffix(".jsonl.gz")
        annotated = NAMES | ({"NRP"} if source == "crossner_politics" else set())
        for row in _read(path):
            text = row["text"]
            handles = (
                tuple(found.span() for found in _HANDLE.finditer(text)) if source.startswith("btc") else ()
            )
            spans = tuple(
                Labelled(each["type"], each["start"], each["end"])
                for each in row["spans"]
                if any(c.isalnum() for c in each["value"])
                and not _overlaps(handles, each["start"], each["end"])
            )
            yield Row(text[:LONGEST], spans, source, text, annotated, handles)


def is_held_out_corpus(row: Row) -> bool:
    """One file of tweets is held out whole."""
    return row.source == "btc_dev"


def negative_rows(
    data: Path, sources: tuple[tuple[str, str, int], ...] = _NEGATIVES, subjects: frozenset[str] | None = None
) -> Iterator[Row]:
    """Texts written for other ends; those in which anybody may be named are left out of training.

    Places, dates and organisations may be in them: of these nothing is said where a word may be one.
    """
    for name, column, most in sources:
        rows = _read(data / f"{name}.jsonl.gz")
        texts = dict.fromkeys(row[column] for row in rows if subjects is None or row["category"] in subjects)
        chosen = sorted(texts, key=_shuffled)[:most]
        for text in chosen:
            yield Row(
                text[:LONGEST],
                (),
                f"free/{name.partition('/')[2]}",
                text,
                frozenset(["PERSON", "STREET_ADDRESS"]),
            )


def without_names(rows: list[Row]) -> list[Row]:
    """Those in which no word may be a first name; what may be a surname, and no eponym, teaches nothing.

    A word may be a name where it is written large, and in none of the texts small.
    """
    small = {word for row in rows for word in re.findall(r"\b[a-z]{2,}\b", row.text)}
    kept = []
    for row in rows:
        first, last = _possible_names(row.text, small)
        if not first:
            kept.append(replace(row, unknown=row.unknown + tuple(last)))
    return kept


def _possible_names(text: str, small: set[str]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Where first names and surnames may stand."""
    bits = gazetteer().bits
    first, last = [], []
    for found in re.finditer(r"\b[A-Z][a-z]{2,}\b", text):
        known = bits.get(found[0].lower(), 0)
        if found[0].lower() in small or known & _SOMETHING_ELSE:
            continue
        if known & BIT["first name"]:
            first.append(found.span())
        elif known & BIT["surname"]:
            last.append(found.span())
    return first, last


def _overlaps(stretches: tuple[tuple[int, int], ...], begin: int, end: int) -> bool:
    return any(begin < other_end and other_begin < end for other_begin, other_end in stretches)


def _read(path: Path) -> Iterator[dict]:  # type: ignore[type-arg]
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def presidio_template_texts(data: Path) -> Iterator[str]:
    """Sentences with slots."""
    for row in _read(data / "pii" / "presidio_templates.jsonl.gz"):
        yield row["template"]


def _shuffled(text: str) -> bytes:
    """An order that has nothing to do with who is held out."""
    return hashlib.md5(text.encode("utf-8", "replace")).digest()
