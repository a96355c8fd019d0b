"""How often the semantic cache is right: recall and false hits on public sets, cosine alone beside it.

    python benchmarks/semantic_cache.py --data ../shared/data/semantic [--quick] [--final]

`python tools/evaluate.py cache` measures the same on any file of labelled pairs. Here are
- Quora pairs of GPTCache's selection, all of them labelled duplicates, so that they tell recall alone. The
  half named `development` was looked at in totals while the verifier was made; `--final` adds the other half;
- MSRP, labelled sentences of news;
- nearest utterances of another intent in Banking77 and CLINC150, an upper bound of false hits: intents
  overlap, and some of these pairs are among those that trained the head.
Published figures of cosine alone on labelled Quora pairs stand beside them.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import sys
from pathlib import Path
from time import process_time
from typing import TypeVar

import numpy as np

from radixway.core.config import EncodersConfig
from radixway.semantics.cache import verify
from radixway.semantics.encoders import TextEncoder, load_encoder

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
from evaluation.cache import THRESHOLDS, Judged, Pair, figures, judge

PUBLISHED = "published, labelled Quora pairs, cosine alone: .757/.208  .598/.125  .395/.060  .175/.017"
T = TypeVar("T")
LOOKED_AT = 3000
"""Quora pairs that were looked at one by one before the halves were made: a sample by seed 7."""


def read(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def quora_halves(rows: list[dict[str, str]]) -> dict[str, list[Pair]]:
    """By digest; what was ever looked at is in the development half."""
    looked_at = set(np.random.default_rng(7).permutation(len(rows))[:LOOKED_AT].tolist())
    halves: dict[str, list[Pair]] = {"development": [], "final": []}
    for at, row in enumerate(rows):
        digest = hashlib.sha256(f"{row['origin']}|{row['similar']}".encode()).digest()
        name = "development" if digest[0] % 2 == 0 or at in looked_at else "final"
        halves[name].append(Pair(row["origin"], row["similar"], True))
    return halves


def nearest_of_other_intents(rows: list[dict[str, str]], encoder: TextEncoder) -> list[Pair]:
    matrix = np.stack([encoder.encode([row["text"]])[0].vector for row in rows])
    intents = np.array([row["intent"] for row in rows])
    cosines = matrix @ matrix.T
    cosines[intents[:, None] == intents[None, :]] = -1
    near = cosines.argmax(axis=1)
    return [Pair(row["text"], rows[at]["text"], False) for row, at in zip(rows, near, strict=True)]


def sample(rows: list[T], size: int) -> list[T]:
    order = np.random.default_rng(7).permutation(len(rows))[:size]
    return [rows[at] for at in sorted(order)]


def show(title: str, pairs: list[Pair], encoder: TextEncoder) -> None:
    judged = judge(pairs, encoder, verify)
    result = figures(judged)
    print(f"\n{title}: {result.same} with one answer, {result.different} with two; recall/false hits")
    print(f"{'':20}" + "".join(f"{threshold:>14.2f}" for threshold in THRESHOLDS))
    for curve in result.curves:
        cells = (f"{share(point.recall):>9}/{share(point.false_hits)}" for point in curve.points)
        print(f"{curve.name:20}" + "".join(cells))
    print(f"  lost at 0.85: {result.refused_same}")
    print(f"  told apart at 0.85: {result.refused_different}")
    print(f"  the verifier takes {cost_ms(judged):.2f} ms of CPU a pair")


def share(value: float | None) -> str:
    return " –  " if value is None else f"{value:.3f}".removeprefix("0")


def cost_ms(judged: list[Judged]) -> float:
    """Of pairs that the verifier is asked about, not having seen either text."""
    near = [each for each in judged if each.is_near(0.85)][:1000]
    began = process_time()
    for each in near:
        verify(each.pair.one, each.pair.other + " ", each.cosine)
    return (process_time() - began) / max(len(near), 1) * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data/semantic"))
    parser.add_argument("--backend", default="auto", choices=["auto", "int8", "fp32", "numpy"])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--final", action="store_true", help="the half of the Quora pairs kept for the end")
    given = parser.parse_args()
    encoder = load_encoder(EncodersConfig(backend=given.backend))
    size = 300 if given.quick else 3000
    halves = quora_halves(read(given.data / "paraphrase" / "gptcache_similar_qqp.jsonl.gz"))
    show("Quora, development", sample(halves["development"], size), encoder)
    if given.final:
        show("Quora, final", halves["final"], encoder)
    print(PUBLISHED)
    rows = sample(read(given.data / "paraphrase" / "msrp_train.jsonl.gz"), size)
    show("MSRP", [Pair(row["a"], row["b"], bool(row["label"])) for row in rows], encoder)
    for name in ("banking77", "clinc150"):
        near = nearest_of_other_intents(
            sample(read(given.data / "routing" / f"{name}.jsonl.gz"), size), encoder
        )
        show(f"{name}, nearest of another intent", near, encoder)


if __name__ == "__main__":
    main()
