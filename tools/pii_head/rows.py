"""Labelled text: what was given, with its sources' licences, and texts without personal data."""

import gzip
import hashlib
import json
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from radixway.semantics.guard.pii.labels import SOFT_TYPES
from radixway.semantics.guard.pii.word_features import BIT, word_gazetteer

HELD_OUT_SHARE, CALIBRATION_SHARE = 0.2, 0.06
"""Of the templates, and of the texts that have none."""
HELD_OUT_CORPUS = "btc_dev"
"""A file of tweets that is held out whole."""
DRAWN_AGAIN = frozenset(["synth_v2", "generated_large", "generated_small", "presidio_filled"])
"""Sources whose first held-out templates were looked at while the head was made: these train it now, and
others, which had trained earlier heads, are held out."""
EVERY_TYPE = frozenset(SOFT_TYPES)
NAMES = frozenset(["PERSON", "ORGANIZATION", "GPE"])
"""What news corpora's annotators were asked for."""
LONGEST = 1500
"""Characters of a text that are read."""

_KNOWN_AS = {"GPE": BIT["place"] | BIT["place of several words"], "NRP": BIT["nrp"]}
_KNOWN_AS["DATE_TIME"] = BIT["month"] | BIT["weekday"] | BIT["time"]
_BETWEEN = ("\n", "\n\n", " ", "\n- ", " | ", "\n\n---\n\n")
_WORD = re.compile(r"\w+")
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
    possible: tuple[Labelled, ...] = ()
    """Stretches that may be of a type, and may be nothing."""
    weight: float = 1.0

    @property
    def part(self) -> str:
        """`held out`: figures are told on it, and nothing trained; `calibration`; or `training`."""
        place = _place(self.group)
        if self.source in DRAWN_AGAIN:
            if place < HELD_OUT_SHARE + CALIBRATION_SHARE:
                return "training"
            place = _place(f"again {self.group}") * (1 - HELD_OUT_SHARE - CALIBRATION_SHARE)
        if place < HELD_OUT_SHARE or self.source == HELD_OUT_CORPUS:
            return "held out"
        return "calibration" if place < HELD_OUT_SHARE + CALIBRATION_SHARE else "training"


def _place(group: str) -> float:
    """From 0 to 1, by chance and always the same."""
    digest = hashlib.sha256(group.encode("utf-8", "replace")).digest()
    return int.from_bytes(digest[:4], "big") / 2**32


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
        possible = _unasked(row["text"], annotated)
        group = template_group(row["masked"])
        rows.append(Row(row["text"], kept, name, group, annotated, unknown, possible, weight=2.0))
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
            yield Row(text[:LONGEST], spans, source, text, NAMES, handles, _unasked(text[:LONGEST], NAMES))


def negative_rows(
    data: Path, sources: tuple[tuple[str, str, int], ...] = _NEGATIVES, subjects: frozenset[str] | None = None
) -> Iterator[Row]:
    """Texts written for other ends: nobody looked for places, dates and organisations in them."""
    for name, column, most in sources:
        rows = _read(data / f"{name}.jsonl.gz")
        texts = dict.fromkeys(row[column] for row in rows if subjects is None or row["category"] in subjects)
        chosen = sorted(texts, key=_shuffled)[:most]
        for text in chosen:
            short = text[:LONGEST]
            yield Row(short, (), f"free/{name.partition('/')[2]}", text, possible=possible_spans(short))


def possible_spans(
    text: str, capitals: frozenset[str] = frozenset(["ORGANIZATION", "GPE", "NRP"])
) -> tuple[Labelled, ...]:
    """What in a text that names nobody may be a place, a date, an organisation: nobody looked for these.

    `capitals`: what every word that is written large may be.
    """
    bits = word_gazetteer().bits
    found = []
    for word in _WORD.finditer(text):
        known = bits.get(word[0].lower(), 0)
        types = {kind for kind, bit in _KNOWN_AS.items() if known & bit}
        if word[0][0].isdigit():
            types = {"DATE_TIME", "AGE", "ZIP_CODE"}
        elif word[0][0].isupper():
            types |= capitals
        found += [Labelled(kind, *word.span()) for kind in sorted(types)]
    return tuple(found)


def _unasked(text: str, annotated: frozenset[str]) -> tuple[Labelled, ...]:
    """What may have been left without a label since nobody looked for its type."""
    return tuple(each for each in possible_spans(text, capitals=frozenset()) if each.type not in annotated)


def joined(rows: list[Row], count: int, seed: int) -> list[Row]:
    """Long texts of several rows: what is personal stands among much that is not, and late in them."""
    rng = random.Random(seed)
    personal = [row for row in rows if row.annotated == EVERY_TYPE and row.spans]
    free = [row for row in rows if row.annotated == EVERY_TYPE and not row.spans]
    made = []
    for _ in range(count):
        parts = [rng.choice(personal if rng.random() < 0.6 else free) for _ in range(rng.randint(2, 12))]
        made.append(_join(parts, rng.choice(_BETWEEN)))
    return made


def _join(parts: list[Row], between: str) -> Row:
    text = ""
    spans, unknown, possible = [], [], []
    for part in parts:
        if len(text) + len(part.text) > LONGEST:
            continue
        at = len(text)
        spans += [Labelled(each.type, each.begin + at, each.end + at) for each in part.spans]
        possible += [Labelled(each.type, each.begin + at, each.end + at) for each in part.possible]
        unknown += [(begin + at, end + at) for begin, end in part.unknown]
        text += part.text + between
    return Row(text, tuple(spans), "joined", text, unknown=tuple(unknown), possible=tuple(possible))


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
    bits = word_gazetteer().bits
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
