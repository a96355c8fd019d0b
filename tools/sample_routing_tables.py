"""Writes the sample that `python tools/evaluate.py routing` reads where it is given no data.

    python tools/sample_routing_tables.py [--data ../shared/data/semantic] [--out FILE]

Of MMLU-Pro all questions that are held out from the domain head's training, of MMLU and GSM8K random ones.
Licences and sources are in NOTICE.
"""

import argparse
import gzip
import json
import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from domain_head.groups import near_duplicates
from domain_head.rows import exam_rows, part
from evaluation.routing import SAMPLE, Table, read_tables

ROWS = {"mmlu": 1500, "gsm8k": 300}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/semantic"))
    parser.add_argument("--out", type=Path, default=SAMPLE)
    given = parser.parse_args()
    exams = [row.text for row in exam_rows(given.data)]
    unseen = {
        text for text, group in zip(exams, near_duplicates(exams), strict=True) if part(group) == "held out"
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    with given.out.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as written:
        for name, table in read_tables(given.data).items():
            places = [at for at, question in enumerate(table.questions) if question in unseen]
            if name in ROWS:
                places = sorted(random.Random(7).sample(range(len(table.questions)), ROWS[name]))
            for row in rows_of(name, table, places):
                written.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")


def rows_of(name: str, table: Table, places: list[int]) -> Iterator[dict[str, object]]:
    for at in places:
        correct = {
            model: int(said)
            for model, said in zip(table.models, table.right[at], strict=True)
            if not np.isnan(said)
        }
        yield {
            "set": name,
            "category": table.categories[at],
            "question": table.questions[at],
            "correct": correct,
        }


if __name__ == "__main__":
    main()
