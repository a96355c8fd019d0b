"""Trains the domain head that ships with Radixway, and says how good it is.

    python tools/train_domain_head.py train [--data ../shared/data/semantic] [--out FILE] [--only en|zh]
                                       [--apart]
    python tools/train_domain_head.py evaluate [--head FILE] [--json FILE] [--confusion]

Needs radixway[training] and the labelled data
that docs/evaluations/semantic.md names; one core, some ten minutes to read
all texts (what the encoder made of them is kept in --cache) and as long for the tables. No row that
`evaluate` reads is trained on: a fifth of the exam questions, near-duplicates kept together, and prompts
written apart. What the development prompts are about is, unless --apart is given: only then do figures over
them tell what choices are worth. Those over the fresh prompts do in either case.
"""

import argparse
import dataclasses
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from domain_head.chinese import ChineseChoices, fit_chinese
from domain_head.fit import BUCKETS, Choices, fit
from domain_head.groups import near_duplicates
from domain_head.rows import (
    LABELS,
    Row,
    apart_from_development,
    assistant_rows,
    balanced,
    chinese_exam_rows,
    count_by,
    development_prompts,
    exam_rows,
    fresh_prompts,
    part,
    weighted,
    written_prompts,
)
from domain_head.states import States, read_states
from evaluation.scores import Scores, score
from radixway.core.config import EncodersConfig
from radixway.semantics.encoders import TextEncoder, TextEncoding, load_encoder
from radixway.semantics.encoders.heads import HeadFile
from radixway.semantics.encoders.heads.chinese_domain import ChineseSoftmax
from radixway.semantics.encoders.heads.domain_head import HAN_ALONE, HAN_FROM, DomainHead, ScriptSoftmax
from radixway.semantics.encoders.heads.ngrams import text_features

BUNDLED = Path(__file__).parents[1] / "src" / "radixway" / "bundled" / "heads" / "domain.npz"
LATIN_WEIGHTS = {"prompts_en": 2.5, "topics_en": 0.25, "terms_en": 0.3, "clinc": 1.0, "mmlu": 0.8}
HAN_WEIGHTS = {"gaokao": 0.1, "agieval": 0.1, "words_zh": 1.5}
WEIGHTS = {"latin": LATIN_WEIGHTS, "han": HAN_WEIGHTS}
CALIBRATION_WEIGHTS = {"natural_en": 2.0, "final_en": 2.0}
SCRIPTS = {"en": ["latin"], "zh": ["han"], None: ["latin", "han"]}


def main() -> None:
    options = _options()
    encoder = load_encoder(EncodersConfig(backend=options.backend))
    if options.command == "train":
        train(options.data, options.cache, options.out, encoder, SCRIPTS[options.only], apart=options.apart)
        return
    figures = evaluate(options.data, options.cache, options.head, encoder)
    for name, scores in figures.items():
        print_scores(name, scores, options.confusion)
    if options.json:
        options.json.write_text(json.dumps({k: dataclasses.asdict(v) for k, v in figures.items()}, indent=1))


def train(
    data: Path, kept_states: Path, out: Path, encoder: TextEncoder, scripts: list[str], *, apart: bool
) -> None:
    """The tables of `scripts`, into one file; those of other scripts stay as they are in it."""
    rows, calibration = training_rows(data, apart), calibration_rows(data)
    kept = HeadFile.load_file(out, kind="domain") if len(scripts) < len(WEIGHTS) else None
    if kept:
        kept.check_encoder(encoder)
    tables: dict[str, ScriptSoftmax | ChineseSoftmax] = {}
    for script in scripts:
        chosen = balanced([row for row in weighted(rows, WEIGHTS[script]) if _is_read(row, script)])
        judges = [row for row in weighted(calibration, CALIBRATION_WEIGHTS) if _is_read(row, script)]
        print(f"{script}: {len(chosen)} rows, {count_by(chosen)}", flush=True)
        if script == "han":
            tables[script] = fit_chinese(chosen, judges, ChineseChoices())
        else:
            states = read_states(encoder, [row.text for row in chosen + judges], kept_states)
            tables[script] = fit(chosen, judges, states, Choices())
    out.parent.mkdir(parents=True, exist_ok=True)
    to_head(tables, encoder, rows, kept).save_file(out)


def to_head(
    tables: dict[str, ScriptSoftmax | ChineseSoftmax],
    encoder: TextEncoder,
    rows: list[Row],
    kept: HeadFile | None,
) -> HeadFile:
    """What is written to the file: `tables`, and of `kept` what belongs to scripts that they lack."""
    arrays = _of_other_scripts(kept.arrays, tables) if kept else {}
    settings = _of_other_scripts(kept.settings, tables) if kept else {}
    for script, table in tables.items():
        if isinstance(table, ChineseSoftmax):
            arrays |= table.arrays()
            settings["han_temperature"] = table.temperature
            continue
        parts = {"ngrams": table.ngrams, "scale": table.scale, "rarity": table.rarity, "bias": table.bias}
        arrays |= {f"{script}_{name}": array for name, array in parts.items()}
        if table.states is not None:
            arrays[f"{script}_states"] = table.states
        if table.neighbours is not None:
            arrays |= table.neighbours.arrays(script)
        settings[f"{script}_temperatures"] = [round(float(each), 4) for each in table.temperatures]
    return HeadFile(
        kind="domain",
        labels=LABELS,
        encoder=encoder.id,
        weights=encoder.weights,
        data=f"rows per source: {count_by(rows)}; sources and licences are in NOTICE",
        arrays=arrays,
        settings={**settings, "buckets": BUCKETS},
    )


def training_rows(data: Path, apart: bool) -> list[Row]:
    """Everything that may be trained on; if `apart`, nothing that development prompts are about."""
    rows = _exams(data, "training") + assistant_rows(data) + written_prompts()
    return apart_from_development(rows) if apart else rows


def calibration_rows(data: Path) -> list[Row]:
    """What the temperatures are chosen by."""
    return _exams(data, "calibration") + [row for _, row in development_prompts()]


def held_out_sets(data: Path) -> dict[str, list[Row]]:
    """By source, what is not trained on. The written sets need nothing outside this repository."""
    rows = [row for _, row in development_prompts()] + fresh_prompts()
    if data.is_dir():
        rows += _exams(data, "held out")
    return {source: [row for row in rows if row.source == source] for source in count_by(rows)}


def evaluate(data: Path, kept_states: Path, head: Path, encoder: TextEncoder) -> dict[str, Scores]:
    """Figures per held-out set, by the code that runs in the gateway."""
    classifier = DomainHead.load_file(head, encoder)
    figures = {}
    for source, rows in held_out_sets(data).items():
        latin = [row.text for row in rows if text_features(row.text, BUCKETS).han_share < HAN_ALONE]
        states = read_states(encoder, latin, kept_states)
        readings = [
            classifier.classify_domain(row.text, _encoding(row.text, states, encoder.size)) for row in rows
        ]
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


def _of_other_scripts(entries: Mapping[str, Any], tables: Mapping[str, object]) -> dict[str, Any]:
    return {name: value for name, value in entries.items() if name.partition("_")[0] not in tables}


def _exams(data: Path, wanted: str) -> list[Row]:
    return [row for row, its_part in _parted_exams(data) if its_part == wanted]


@cache
def _parted_exams(data: Path) -> list[tuple[Row, str]]:
    """Exam questions with their `part`; near-duplicates share theirs."""
    found = []
    for rows in (exam_rows(data), chinese_exam_rows(data)):
        groups = near_duplicates([row.text for row in rows])
        found += [(row, part(group)) for row, group in zip(rows, groups, strict=True)]
    return found


def _is_read(row: Row, script: str) -> bool:
    """Whether the table of `script` is trained on `row`: a Chinese list has words in Latin letters too."""
    is_chinese = text_features(row.text, BUCKETS).han_share >= HAN_FROM
    return is_chinese or row.source.endswith("_zh") if script == "han" else not is_chinese


def _encoding(text: str, states: States, size: int) -> TextEncoding:
    """From the cache; the Chinese table reads no states."""
    read = states[text].astype(np.float32) if text in states else np.zeros(5 * size, np.float32)
    return TextEncoding(read[:size], 0, np.zeros((0, 2), np.int32), summary=read[size:])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["train", "evaluate"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/semantic"))
    parser.add_argument("--cache", type=Path, default=Path("build/domain_states.npz"))
    parser.add_argument("--backend", default="int8", choices=["int8", "fp32", "numpy"])
    parser.add_argument("--only", choices=["en", "zh"], help="train one table, keep the file's other one")
    parser.add_argument("--apart", action="store_true", help="leave out what development prompts are about")
    parser.add_argument("--out", type=Path, default=BUNDLED)
    parser.add_argument("--head", type=Path, default=BUNDLED)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--confusion", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
