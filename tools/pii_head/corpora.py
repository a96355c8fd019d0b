"""Which rows there are, in which part, and how often a template is filled for each."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from pii_head.authored import authored_templates
from pii_head.chinese import fill_chinese, possible_spans
from pii_head.generate import fill, presidio_templates
from pii_head.prompts import chinese_prompts, chinese_prompts_that_tempt, prompts, prompts_that_tempt
from pii_head.rows import (
    CHINESE_NEGATIVES,
    Row,
    human_rows,
    joined,
    negative_rows,
    presidio_rows,
    presidio_template_texts,
    without_names,
)

PRESIDIO = ("synth_v2", "generated_large", "generated_small")
TIMES = {"training": (10, 16, 40), "calibration": (4, 8, 8), "held out": (0, 3, 5)}
"""How often a template of Presidio's, one of ours, and a Chinese one is filled."""
PROMPTS = {"training": (8, 24), "calibration": (4, 6), "held out": (3, 4)}
"""How often a prompt is filled, and a Chinese one."""
JOINED = {"training": (1200, 600), "calibration": (60, 30), "held out": (100, 50)}
"""Long texts, and Chinese ones."""
_SEEDS = {"training": 11, "calibration": 21, "held out": 31}
_SUBJECTS = frozenset(["math", "physics", "chemistry", "biology", "computer science", "engineering"])
"""Of Chinese exams; the others name people of old, and people who were made up."""
_SOMEBODY = re.compile("某|小[明红华刚丽强芳李王张]")


def latin_rows(data: Path, part: str) -> list[Row]:
    """Everything but Chinese of a part: `training`, `calibration`, `held out`."""
    presidio, ours, _ = TIMES[part]
    seed = _SEEDS[part]
    rows = [row for name in PRESIDIO for row in presidio_rows(data, name)] + list(human_rows(data))
    rows += fill(presidio_templates(presidio_template_texts(data)), "presidio_filled", presidio, seed)
    rows += fill(authored_templates("en"), "authored_en", ours, seed + 1)
    rows += without_names(list(negative_rows(data)))
    chosen = [row for row in rows if row.part == part]
    whole = [*prompts(PROMPTS[part][0], seed + 5), *prompts_that_tempt()]
    return chosen + joined(chosen, JOINED[part][0], seed + 2) + [row for row in whole if row.part == part]


def chinese_rows(data: Path, part: str) -> list[Row]:
    """The same in Chinese: templates, and exams and prompts in which nobody looked for places or dates."""
    rows = list(fill_chinese(authored_templates("zh"), TIMES[part][2], _SEEDS[part] + 3))
    rows += _chinese_free(data)
    chosen = [row for row in rows if row.part == part]
    more = joined(chosen, JOINED[part][1], _SEEDS[part] + 4)
    whole = [*chinese_prompts(PROMPTS[part][1], _SEEDS[part] + 6), *chinese_prompts_that_tempt()]
    chosen += [row for row in whole if row.part == part]
    return chosen + [replace(row, source="joined_zh") for row in more]


def _chinese_free(data: Path) -> Iterator[Row]:
    """Chinese without personal data; exams only of subjects that name nobody."""
    for line in authored_templates("zh", "free"):
        yield Row(line, (), "free/authored_zh", line, weight=5.0)
    for row in negative_rows(data, CHINESE_NEGATIVES, _SUBJECTS):
        if not _SOMEBODY.search(row.text):
            text = row.text[:300]
            yield replace(row, text=text, possible=possible_spans(text))
