"""The sample that ships for `python tools/evaluate.py guard pii`: held-out rows whose licences permit it."""

import json
import random
from pathlib import Path

from pii_head.corpora import chinese_rows, latin_rows
from pii_head.rows import Row

ROWS = {
    "authored_en": ("prompts_en", 150),
    "authored_zh": ("prompts_zh", 120),
    "wikigold": ("wikigold", 80),
    "free/mmlu_pro_test": ("free", 80),
    "free/clinc150": ("free", 80),
    "free/metatool_single": ("free", 40),
    "free/authored_zh": ("free", 20),
}
"""By source: the set's name, and how many rows at most."""
_SEED = 19


def write(data: Path, out: Path) -> None:
    """Rows as JSON lines."""
    rng = random.Random(_SEED)
    by_source: dict[str, list[Row]] = {}
    for row in latin_rows(data, "held out") + chinese_rows(data, "held out"):
        by_source.setdefault(row.source, []).append(row)
    lines = []
    for source, (name, most) in ROWS.items():
        rows = by_source[source]
        lines += [_told(row, name) for row in rng.sample(rows, min(most, len(rows)))]
    out.write_text("\n".join(lines) + "\n", "utf-8")


def _told(row: Row, name: str) -> str:
    spans = [{"type": span.type, "begin": span.begin, "end": span.end} for span in row.spans]
    told = {"text": row.text, "spans": spans, "set": name}
    return json.dumps(told | ({"names_nobody": True} if name == "free" else {}), ensure_ascii=False)
