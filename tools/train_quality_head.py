"""Learns from who answered which question well when a strong model is worth its price.

    python tools/train_quality_head.py TABLE --weak MODEL --strong MODEL --out FILE.npz [--set NAME]

TABLE: JSON lines {question, correct: {model: 0 or 1}}, gzipped or not, for instance of graded answers from
your own traffic; some hundreds of rows at least. Prints how good the head is on questions it has not seen,
and the threshold for each share of calls to the strong model. Needs radixway[semantic].

    signals:
      complexity: [{name: tier, head: FILE.npz, threshold: 0.12}]
    decisions:
      - name: strong
        priority: 10
        rules: {type: complexity, name: "tier:hard"}
        modelRefs: [{model: MODEL, use_reasoning: false}]
"""

import argparse
from pathlib import Path

import numpy as np

from evaluation.routing import evaluate_tiers, near_duplicates, read_questions, read_tables
from evaluation.routing.tables import split
from quality_fit import fit_quality, to_quality_head
from radixway.core.config import EncodersConfig
from radixway.semantics.encoders import load_encoder
from radixway.semantics.encoders.heads import DOMAIN_HEAD, DomainHead
from radixway.semantics.encoders.heads.quality_head import QualityHead

HEAD = "quality head's gain"
TRAIN_SHARE = 0.7


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("table", type=Path)
    parser.add_argument("--set", help="by default the file's only one")
    parser.add_argument("--weak", required=True)
    parser.add_argument("--strong", required=True)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    tables = read_tables(given.table)
    table = tables[given.set] if given.set else next(iter(tables.values()))
    encoder = load_encoder(EncodersConfig())
    readings = read_questions(table.questions, encoder, DomainHead.load_file(DOMAIN_HEAD, encoder))
    pair = (given.weak, given.strong)
    figures = evaluate_tiers(pair, table, readings)
    scored = figures.scored[HEAD]
    print(f"{figures.weak} {figures.weak_quality:.3f}, {figures.strong} {figures.strong_quality:.3f}")
    print(f"unseen questions: APGR {scored.apgr:.3f}, CPT50 {scored.cpt50:.0%}, CPT80 {scored.cpt80:.0%}")
    right = table.of(pair)
    asked = np.isnan(right).sum(axis=1) == 0
    vectors, right = readings.vectors[asked], right[asked]
    train = split(near_duplicates(vectors), 0, TRAIN_SHARE)
    trial = QualityHead(to_quality_head(fit_quality(vectors[train], None, right[train]), pair, encoder, ""))
    quality = trial.predict_quality(vectors[~train])
    gains = quality[:, 1] - quality[:, 0]
    print("strong calls   threshold   answered well")
    for share in range(10, 100, 10):
        threshold = np.quantile(gains, 1 - share / 100)
        print(f"{share:10} %   {threshold:9.3f}   {scored.curve[share]:13.3f}")
    data = f"{len(right)} questions of {given.table.name}"
    to_quality_head(fit_quality(vectors, None, right), pair, encoder, data).save_file(given.out)


if __name__ == "__main__":
    main()
