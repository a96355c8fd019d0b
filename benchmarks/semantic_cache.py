"""How often the semantic cache is right: false hits and recall, by cosine alone and with the verifier.

    python benchmarks/semantic_cache.py --data ../shared/data/semantic [--quick]

Sets. Nothing was fitted to them, but rules, word lists and two constants were chosen while looking at the
first, the second and the lists: their figures flatter.
- GPTCache's selection of Quora pairs, and 150 nearest questions outside a pair, judged by hand;
- MSRP, labelled sentences of news;
- nearest utterances of another intent in Banking77 and CLINC150: an upper bound, because intents overlap;
- the lists of tests/data/semantic_cache.
Published figures of cosine alone on labelled Quora pairs stand beside them.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from radixway.config import EncodersSection
from radixway.encoders import Encoder, load_encoder
from radixway.semantic_cache.ngrams import is_by_characters, ngram_vector
from radixway.semantic_cache.verifier import verify

HERE = Path(__file__).parent
LISTS = HERE.parent / "tests" / "data" / "semantic_cache"
THRESHOLDS = (0.80, 0.85, 0.90, 0.95)
BY_CHARACTERS = 0.50
PUBLISHED = {0.80: (0.757, 0.208), 0.85: (0.598, 0.125), 0.90: (0.395, 0.060), 0.95: (0.175, 0.017)}
"""Recall and false hits of cosine alone on 12,000 labelled Quora pairs."""


@dataclass(slots=True)
class Pair:
    one: str
    other: str
    cosine: float
    same: bool | None
    reason: str = ""


Hit = Callable[[Pair, float], bool]
APPROACHES: dict[str, Hit] = {
    "cosine alone": lambda pair, least: pair.cosine >= least,
    "with the rules": lambda pair, least: pair.cosine >= least and pair.reason in ("same", "content"),
    "rules and content": lambda pair, least: pair.cosine >= least and pair.reason == "same",
}


class Vectors:
    """Vectors of texts, each made once."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._known: dict[str, np.ndarray] = {}

    def of(self, text: str) -> np.ndarray:
        if text not in self._known:
            made = ngram_vector(text) if is_by_characters(text) else self._encoder.encode([text])[0].vector
            self._known[text] = made
        return self._known[text]

    def pair(self, one: str, other: str, same: bool | None) -> Pair:
        alike = is_by_characters(one) == is_by_characters(other)
        cosine = float(self.of(one) @ self.of(other)) if alike else 0.0
        return Pair(one, other, cosine, same, verify(one, other, cosine).reason)


def read(path: Path) -> list[dict]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def listed(name: str, same: bool) -> Iterable[tuple[str, str, bool]]:
    for line in (LISTS / name).read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            one, other = line.split(" | ")
            yield one, other, same


def nearest_of_other_intents(rows: list[dict], vectors: Vectors) -> list[Pair]:
    matrix = np.stack([vectors.of(row["text"]) for row in rows])
    intents = np.array([row["intent"] for row in rows])
    cosines = matrix @ matrix.T
    cosines[intents[:, None] == intents[None, :]] = -1
    near = cosines.argmax(axis=1)
    return [vectors.pair(row["text"], rows[at]["text"], False) for row, at in zip(rows, near, strict=True)]


def sample(rows: list, size: int) -> list:
    order = np.random.default_rng(7).permutation(len(rows))[:size]
    return [rows[at] for at in sorted(order)]


def share(pairs: list[Pair], hit: Hit, least: float) -> str:
    return f"{sum(hit(pair, least) for pair in pairs) / len(pairs):7.3f}" if pairs else "      –"


def show(title: str, pairs: list[Pair]) -> None:
    same, other = ([pair for pair in pairs if pair.same is kind] for kind in (True, False))
    print(f"\n{title}: {len(same)} with one answer, {len(other)} with two")
    print(f"{'':20}" + "".join(f"  at {least:.2f}: recall  false" for least in THRESHOLDS))
    for name, hit in APPROACHES.items():
        cells = (f"{share(same, hit, least):>15}{share(other, hit, least)}" for least in THRESHOLDS)
        print(f"{name:20}" + " ".join(cells))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=HERE.parent.parent / "shared" / "data" / "semantic")
    parser.add_argument("--backend", default="auto", choices=["auto", "int8", "fp32", "numpy"])
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    vectors = Vectors(load_encoder(EncodersSection(backend=given.backend)))
    size = 300 if given.quick else 3000
    for name, same in (("must_miss.txt", False), ("must_hit.txt", True)):
        pairs = [vectors.pair(*row) for row in listed(name, same)]
        least = {True: BY_CHARACTERS, False: 0.85}
        for approach, hit in APPROACHES.items():
            hits = sum(hit(pair, least[is_by_characters(pair.one)]) for pair in pairs)
            print(f"{name:14} {approach:20} {hits:3} of {len(pairs)} hit")
    paraphrases = given.data / "paraphrase"
    if not paraphrases.is_dir():
        print(f"\n{given.data} is not there: the labelled sets are left out")
        return
    quora = read(paraphrases / "gptcache_similar_qqp.jsonl.gz")
    pairs = [vectors.pair(row["origin"], row["similar"], True) for row in sample(quora, size)]
    texts = [text for row in quora for text in (row["origin"], row["similar"])]
    judged = json.loads((HERE / "data" / "cache_near_misses.json").read_text())["pairs"]
    pairs += [vectors.pair(texts[one], texts[other], False) for one, other, same in judged if not same]
    show("Quora pairs, and nearest questions judged by hand (the hardest there are)", pairs)
    print(f"{'published, labelled':20}" + " ".join(f"{r:15.3f}{f:7.3f}" for r, f in PUBLISHED.values()))
    rows = sample(read(paraphrases / "msrp_train.jsonl.gz"), size)
    show("MSRP", [vectors.pair(row["a"], row["b"], bool(row["label"])) for row in rows])
    for name in ("banking77", "clinc150"):
        rows = sample(read(given.data / "routing" / f"{name}.jsonl.gz"), size)
        show(f"{name}, nearest of another intent", nearest_of_other_intents(rows, vectors))


if __name__ == "__main__":
    main()
