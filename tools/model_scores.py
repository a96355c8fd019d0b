"""Writes scores by subject for `semantic.shipped_scores`: of models whose answers to MMLU-Pro are published.

    python tools/model_scores.py [--data mmlu_pro_model_correctness.csv.gz] [--out FILE]

A row of the data: a question's category, and for each model 1 (right), 0, or nothing (not asked). The head of
the file and its overall scores, which were written by hand, stay.
"""

import argparse
import csv
import gzip
from collections import defaultdict
from pathlib import Path
from statistics import fmean

from radixway.core.config.semantic.shipped_scores import short_model_name

DATA = Path("../shared/data/semantic/routing/mmlu_pro_model_correctness.csv.gz")
OUT = Path("src/radixway/bundled/model_scores.toml")
CONTINUE_TEXT = {
    *("Llama-2-13b-hf", "Llama-2-70b-hf", "Llama-2-7b-hf", "Meta-Llama-3-70B", "Meta-Llama-3-8B"),
    *("Meta-Llama-3_1-70B", "Meta-Llama-3_1-8B", "Mistral-7B-v0.1", "Mistral-7B-v0.2-hf"),
    *("Mixtral-8x7B-v0.1", "Qwen1.5-110B", "Yi-34B", "Yi-6B", "gemma-7b"),
}
"""Models that nobody chats with."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    answers: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    with gzip.open(given.data, "rt", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            category = row.pop("category")
            row.pop("question_id")
            for model, right in row.items():
                if right and model not in CONTINUE_TEXT:
                    answers[model][category].append(int(float(right)))
    tables = [given.out.read_text("utf-8").partition("[by_category.")[0].rstrip()]
    for model, categories in sorted(answers.items(), key=lambda entry: entry[0].lower()):
        scores = [f'"{name}" = {fmean(categories[name]):.3f}' for name in sorted(categories)]
        tables.append("\n".join((f'[by_category."{short_model_name(model)}"]', *scores)))
    given.out.write_text("\n\n".join(tables) + "\n", "utf-8")


if __name__ == "__main__":
    main()
