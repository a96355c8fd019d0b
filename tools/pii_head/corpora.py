"""Which rows are trained on, how often, and which are held out."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pii_head.authored import authored_templates
from pii_head.chinese import fill_chinese
from pii_head.generate import fill, presidio_templates
from pii_head.rows import (
    CHINESE_NEGATIVES,
    Row,
    human_rows,
    is_held_out_corpus,
    negative_rows,
    presidio_rows,
    presidio_template_texts,
    without_names,
)

PRESIDIO = ("synth_v2", "generated_large", "generated_small")
SEED = 11
_SUBJECTS = frozenset(["math", "physics", "chemistry", "biology", "computer science", "engineering"])
"""Of Chinese exams; the others name people of old, and people who were made up."""
_SOMEBODY = re.compile("某|小[明红华刚丽强芳李王张]")


def training(data: Path) -> list[Row]:
    """Everything that is not held out."""
    given = [row for name in PRESIDIO for row in presidio_rows(data, name)] + list(human_rows(data))
    made = list(fill(presidio_templates(presidio_template_texts(data)), "presidio_filled", 12, SEED))
    made += fill(authored_templates("en"), "authored_en", 20, SEED + 1)
    free = without_names(list(negative_rows(data)))
    return [row for row in given + made + free if not row.is_held_out and not is_held_out_corpus(row)]


def chinese_training(data: Path) -> list[Row]:
    """The same in Chinese: templates, and exams and prompts in which nobody looked for places or dates."""
    rows = list(fill_chinese(authored_templates("zh"), 60, SEED + 3)) + list(chinese_free(data))
    return [row for row in rows if not row.is_held_out]


def chinese_free(data: Path) -> Iterator[Row]:
    """Chinese without personal data; exams only of subjects that name nobody."""
    yield from free_prompts("zh")
    for row in negative_rows(data, CHINESE_NEGATIVES, _SUBJECTS):
        if not _SOMEBODY.search(row.text):
            yield replace(row, text=row.text[:300])


def free_prompts(name: str) -> Iterator[Row]:
    """The lines of `free_{name}.txt`."""
    for line in authored_templates(name, "free"):
        yield Row(line, (), f"free/authored_{name}", line, weight=5.0)


def held_out(data: Path) -> list[Row]:
    """What figures are told on."""
    rows = [row for name in PRESIDIO for row in presidio_rows(data, name)] + list(human_rows(data))
    rows += fill(authored_templates("en"), "authored_en", 3, SEED + 2)
    rows += without_names(list(negative_rows(data)))
    rows += fill_chinese(authored_templates("zh"), 5, SEED + 4)
    rows += chinese_free(data)
    return [row for row in rows if row.is_held_out or is_held_out_corpus(row)]
