"""Trains the PII head that ships with Radixway, and says how good it is.

    python tools/train_pii_head.py train [--data ../shared/data/semantic] [--out FILE] [--only latin|han]
    python tools/train_pii_head.py words [--data ../shared/data/semantic] [--out FILE]
    python tools/train_pii_head.py evaluate [--head FILE] [--json FILE]
    python tools/train_pii_head.py gazetteers
    python tools/train_pii_head.py sample

Needs radixway[training,engine], for all but the lists the labelled data
that docs/evaluations/guard.md names; one core,
minutes to read all texts (what the encoder made of them is kept in --cache) and as long to train. A fifth of
the templates and texts, and one file of tweets, are never trained on: `evaluate` reads these. `words`
trains the tagger of long texts, which knows no states.
"""

import argparse
import asyncio
import dataclasses
import json
import os
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from evaluation.pii import ROWS, Labelled, LabelledText, SetFigures, evaluate_pii
from pii_head.chinese import fit_chinese
from pii_head.corpora import chinese_rows, latin_rows
from pii_head.fit import Array, Choices
from pii_head.gazetteers import write as write_gazetteers
from pii_head.latin import fit_latin
from pii_head.rows import Row
from pii_head.sample import write as write_sample
from pii_head.states import NoStates, WordStates
from radixway.core.config import EncodersConfig
from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.encoders import TextEncoder, load_encoder
from radixway.semantics.encoders.heads import HeadFile
from radixway.semantics.guard.pii.finder import merge_findings
from radixway.semantics.guard.pii.gazetteers import FOLDER
from radixway.semantics.guard.pii.pii_head import LAYERS, PII_HEAD, WORDS_HEAD, PiiHead
from radixway.semantics.guard.pii.recognisers import find_structured
from radixway.semantics.guard.pii.sequence_tagger import TAGS


def main() -> None:
    if (
        os.environ.get("PYTHONHASHSEED") != "0"
    ):  # Faker draws from sets: their order is by the hashes of words
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"PYTHONHASHSEED": "0"})
    options = _options()
    if options.command == "gazetteers":
        write_gazetteers(FOLDER)
        return
    if options.command == "sample":
        write_sample(options.data, ROWS)
        return
    encoder = load_encoder(EncodersConfig(backend=options.backend))
    if options.command == "train":
        train(options.data, options.cache, options.out or PII_HEAD, encoder, options.only)
        return
    if options.command == "words":
        train_words(options.data, options.out or WORDS_HEAD, encoder)
        return
    figures = evaluate(options.data, options.head, encoder, options.threshold, options.sets)
    for name, each in figures.items():
        print_figures(name, each)
    if options.json:
        options.json.write_text(json.dumps({k: dataclasses.asdict(v) for k, v in figures.items()}, indent=1))


def train(data: Path, cache: Path, out: Path, encoder: TextEncoder, only: str | None) -> None:
    """All rows that are not held out, into one file; with `only`, the other tagger stays as it is in it."""
    arrays: dict[str, Array] = {}
    if only:
        kept = HeadFile.load_file(out, kind="pii")
        kept.check_encoder(encoder)
        arrays |= {name: array for name, array in kept.arrays.items() if not name.startswith(only)}
    rows, chinese = latin_rows(data, "training"), chinese_rows(data, "training")
    sources = sorted(Counter(row.source for row in rows + chinese).items())
    told = ", ".join(f"{source} {count}" for source, count in sources)
    print(told, flush=True)
    if only != "latin":
        arrays |= fit_chinese(chinese, chinese_rows(data, "calibration"), Choices(epochs=5))
    if only != "han":
        arrays |= fit_latin(rows, latin_rows(data, "calibration"), WordStates(encoder, cache), Choices())
    out.parent.mkdir(parents=True, exist_ok=True)
    HeadFile(
        kind="pii",
        labels=TAGS,
        encoder=encoder.id,
        weights=encoder.weights,
        data=f"rows per source: {told}; sources and licences are in NOTICE",
        arrays=arrays,
    ).save_file(out)


def train_words(data: Path, out: Path, encoder: TextEncoder) -> None:
    """A tagger of everything but Chinese that knows what words look like, and no states."""
    rows, calibration = latin_rows(data, "training"), latin_rows(data, "calibration")
    told = ", ".join(f"{source} {count}" for source, count in sorted(Counter(r.source for r in rows).items()))
    HeadFile(
        kind="pii",
        labels=TAGS,
        encoder=encoder.id,
        weights=encoder.weights,
        data=f"rows per source: {told}; sources and licences are in NOTICE",
        arrays=fit_latin(rows, calibration, NoStates(encoder), Choices()),
        settings={"layers": []},
    ).save_file(out)


def evaluate(
    data: Path, path: Path, encoder: TextEncoder, threshold: float, sets: Collection[str]
) -> dict[str, SetFigures]:
    """Figures per held-out set, or of `sets`, by the code that runs in the gateway."""
    head = PiiHead.load_file(path, encoder)

    async def find(text: str) -> Sequence[PersonalDataSpan]:
        soft = head.find_spans(text, encoder.encode([text], layers=LAYERS)[0])
        return merge_findings(find_structured(text), soft, text, threshold)

    held_out = latin_rows(data, "held out") + chinese_rows(data, "held out")
    rows = [labelled(row) for row in held_out if not sets or row.source in sets]
    return asyncio.run(evaluate_pii(find, rows, threshold))


def labelled(row: Row) -> LabelledText:
    """As the evaluation reads it."""
    spans = tuple(Labelled(span.type, span.begin, span.end) for span in row.spans)
    return LabelledText(row.text, spans, row.source, True if row.source.startswith("free/") else None)


def print_figures(name: str, figures: SetFigures) -> None:
    """One set's figures as text."""
    total = figures.overall()
    print(f"{name}: {figures.rows} rows, overlap F1 {total.overlap_f1:.3f}, exact F1 {total.exact_f1:.3f}")
    for kind, counts in sorted(figures.types.items()):
        print(
            f"  {kind:15} {counts.labelled:5} overlap F1 {counts.overlap_f1:.3f}"
            f" (P {counts.precision:.3f}, R {counts.recall:.3f}), exact F1 {counts.exact_f1:.3f}"
        )
    if figures.free:
        told = ", ".join(f"{kind} {figures.share_flagged(kind):.2%}" for kind in sorted(figures.flagged))
        print(f"  of {figures.free} rows without personal data flagged: {told or 'none'}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("command", choices=["train", "words", "evaluate", "gazetteers", "sample"])
    parser.add_argument("--data", type=Path, default=Path("../shared/data/semantic"))
    parser.add_argument("--cache", type=Path, default=Path("build/pii_states"))
    parser.add_argument(
        "--only", choices=["latin", "han"], help="train one tagger, keep the file's other one"
    )
    parser.add_argument("--backend", default="int8", choices=["int8", "fp32", "numpy"])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--head", type=Path, default=PII_HEAD)
    parser.add_argument("--sets", nargs="*", default=[], help="evaluate: these alone, not all of them")
    parser.add_argument("--threshold", type=float, default=0.7)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    main()
