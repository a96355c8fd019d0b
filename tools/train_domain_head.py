"""Trains the domain head that ships with Radixway, and says how good it is.

    python tools/train_domain_head.py train [--data ../shared/data/semantic] [--out FILE] [--only en|zh]
    python tools/train_domain_head.py evaluate [--head FILE] [--json FILE] [--confusion]

Needs radixway[training] and the labelled data that docs/semantic.md names; one core, some minutes for the
vectors (kept in --cache) and some for the tables. No row that `evaluate` reads is ever trained on: a fifth
of the exam questions, near-duplicates kept together, and prompts whose topics do not occur under their
label in what was written for training.
"""

import argparse
import dataclasses
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from domain_head.fit import BUCKETS, Choices, fit
from domain_head.groups import near_duplicates
from domain_head.rows import (
    LABELS,
    Row,
    assistant_rows,
    chinese_exam_rows,
    count_by,
    exam_rows,
    final_prompts,
    held_out,
    held_out_prompts,
    weighted,
    written_prompts,
)
from domain_head.vectors import Vectors, read_vectors
from radixway.config import EncodersSection
from radixway.encoders import Encoder, Encoding, load_encoder
from radixway.encoders.heads import Head
from radixway.encoders.heads.domain import HAN_FROM, DomainHead, Table
from radixway.encoders.heads.ngrams import text_features
from radixway.encoders.heads.scores import Scores, score

BUNDLED = Path(__file__).parents[1] / "src" / "radixway" / "bundled" / "heads" / "domain.npz"
CALIBRATION_SHARE = 0.1
LATIN_WEIGHTS = {"prompts_en": 3.0, "topics_en": 1.0, "clinc": 1.0, "mmlu": 0.8}
HAN_WEIGHTS = {"gaokao": 0.1, "agieval": 0.1, "words_zh": 1.5}
WEIGHTS = {"latin": LATIN_WEIGHTS, "han": HAN_WEIGHTS}
SCRIPTS = {"en": ["latin"], "zh": ["han"], None: ["latin", "han"]}


def main() -> None:
    options = _options()
    encoder = load_encoder(EncodersSection(backend=options.backend))
    if options.command == "train":
        train(options.data, options.cache, options.out, encoder, SCRIPTS[options.only])
        return
    figures = evaluate(options.data, options.cache, options.head, encoder)
    for name, scores in figures.items():
        print_scores(name, scores, options.confusion)
    if options.json:
        options.json.write_text(json.dumps({k: dataclasses.asdict(v) for k, v in figures.items()}, indent=1))


def train(data: Path, cache: Path, out: Path, encoder: Encoder, scripts: list[str]) -> None:
    """The tables of `scripts`, into one file; those of other scripts stay as they are in it."""
    rows = training_rows(data)
    kept = Head.load(out, kind="domain") if len(scripts) < len(WEIGHTS) else None
    if kept:
        kept.check(encoder)
    tables: dict[str, Table] = {}
    for script in scripts:
        chosen = [row for row in weighted(rows, WEIGHTS[script]) if _script(row.text) == script]
        vectors = read_vectors(encoder, [row.text for row in chosen], cache) if script == "latin" else None
        random.Random(1).shuffle(chosen)
        cut = int(len(chosen) * CALIBRATION_SHARE)
        print(f"{script}: {len(chosen)} rows, {count_by(chosen)}", flush=True)
        tables[script] = fit(chosen[cut:], chosen[:cut], vectors, Choices())
    out.parent.mkdir(parents=True, exist_ok=True)
    to_head(tables, encoder, rows, kept).save(out)


def to_head(tables: dict[str, Table], encoder: Encoder, rows: list[Row], kept: Head | None) -> Head:
    """What is written to the file: `tables`, and of `kept` what belongs to scripts that they lack."""
    arrays = _of_other_scripts(kept.arrays, tables) if kept else {}
    for script, table in tables.items():
        parts = {"ngrams": table.ngrams, "scale": table.scale, "rarity": table.rarity, "bias": table.bias}
        arrays |= {f"{script}_{name}": array for name, array in parts.items()}
        if table.vector is not None:
            arrays[f"{script}_vector"] = table.vector
    settings = _of_other_scripts(kept.settings, tables) if kept else {}
    settings |= {f"{script}_temperature": table.temperature for script, table in tables.items()}
    return Head(
        kind="domain",
        labels=LABELS,
        encoder=encoder.id,
        weights=encoder.weights,
        data=f"rows per source: {count_by(rows)}; sources and licences are in NOTICE",
        arrays=arrays,
        settings={**settings, "buckets": BUCKETS},
    )


def training_rows(data: Path) -> list[Row]:
    """Everything that may be trained on."""
    exams = [row for row, group in _grouped(exam_rows(data)) if not held_out(group)]
    chinese = [row for row, group in _grouped(chinese_exam_rows(data)) if not held_out(group)]
    return exams + chinese + assistant_rows(data) + written_prompts()


def held_out_sets(data: Path) -> dict[str, list[Row]]:
    """Everything that was not, by source. The natural sets need nothing outside this repository."""
    rows = [row for _, row in held_out_prompts() + final_prompts()]
    if data.is_dir():
        rows += [row for row, group in _grouped(exam_rows(data)) if held_out(group)]
        rows += [row for row, group in _grouped(chinese_exam_rows(data)) if held_out(group)]
    return {source: [row for row in rows if row.source == source] for source in count_by(rows)}


def evaluate(data: Path, cache: Path, head: Path, encoder: Encoder) -> dict[str, Scores]:
    """Figures per held-out set, by the code that runs in the gateway."""
    classifier = DomainHead.load(head, encoder)
    figures = {}
    for source, rows in held_out_sets(data).items():
        latin = [row.text for row in rows if _script(row.text) == "latin"]
        vectors = read_vectors(encoder, latin, cache)
        readings = [classifier.read(row.text, _encoding(row.text, vectors)) for row in rows]
        figures[source] = score([row.label for row in rows], readings)
    return figures


def print_scores(name: str, scores: Scores, confusion: bool) -> None:
    """One set's figures as text."""
    print(
        f"{name}: {scores.rows} rows, accuracy {scores.accuracy:.3f}, among the first two {scores.top2:.3f},"
        f" calibration error {scores.calibration_error:.3f}"
    )
    print("  recall    " + ", ".join(f"{label} {share:.2f}" for label, share in scores.recall.items()))
    print("  precision " + ", ".join(f"{label} {share:.2f}" for label, share in scores.precision.items()))
    if confusion:
        for label, found in scores.confusion.items():
            wrong = {other: rows for other, rows in found.items() if other != label}
            print(f"  {label} taken for: {wrong}")


def _of_other_scripts(entries: Mapping[str, Any], tables: dict[str, Table]) -> dict[str, Any]:
    return {name: value for name, value in entries.items() if name.partition("_")[0] not in tables}


def _grouped(rows: list[Row]) -> list[tuple[Row, str]]:
    return list(zip(rows, near_duplicates([row.text for row in rows]), strict=True))


def _script(text: str) -> str:
    return "han" if text_features(text, BUCKETS).han_share >= HAN_FROM else "latin"


def _encoding(text: str, vectors: Vectors) -> Encoding:
    """From the cache; the Chinese table reads no vector."""
    return Encoding(vectors.get(text, np.zeros(0, np.float32)), 0, np.zeros((0, 2), np.int32))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["train", "evaluate"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/semantic"))
    parser.add_argument("--cache", type=Path, default=Path("build/domain_vectors.npz"))
    parser.add_argument("--backend", default="int8", choices=["int8", "fp32", "numpy"])
    parser.add_argument("--only", choices=["en", "zh"], help="train one table, keep the file's other one")
    parser.add_argument("--out", type=Path, default=BUNDLED)
    parser.add_argument("--head", type=Path, default=BUNDLED)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--confusion", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
