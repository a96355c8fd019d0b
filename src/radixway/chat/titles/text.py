"""What a model said, as a title."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

MAX_TITLE_CHARACTERS = 80
"""Characters of a title that a model makes."""
_AROUND = " \t#*_`\"'“”„‘’«»「」《》"
"""What models put around titles."""


def clean_title(said: str, chat: str) -> str | None:
    """What a model said, as a title; None: it is none, or not in a script that the chat is written in."""
    said = re.sub(r"<think>.*?(</think>|\Z)", " ", said, flags=re.DOTALL)
    lines = ("".join(_drop_control_characters(line)).strip(_AROUND) for line in said.splitlines())
    line = next((line for line in lines if line), "")
    line = re.sub(r"^(title|titel|titre|título|标题|題名)\s*[:：]\s*", "", line, flags=re.IGNORECASE)
    line = " ".join(line.strip(_AROUND).split())
    if len(line) > MAX_TITLE_CHARACTERS:
        line = line[: MAX_TITLE_CHARACTERS - 1].rsplit(" ", 1)[0].rstrip(" ,.;:") + "…"
    scripts = _count_scripts(line)
    if not scripts:
        return None
    usual, _ = scripts.most_common(1)[0]
    known = _count_scripts(chat)
    return line if known[usual] * 10 >= known.total() else None


def _drop_control_characters(line: str) -> Iterable[str]:
    """Without what controls how text is shown."""
    return (
        " " if each.isspace() else each
        for each in line
        if each.isspace() or unicodedata.category(each)[0] != "C"
    )


def _count_scripts(text: str) -> Counter[str]:
    """Letters by the first word of their names: LATIN, CYRILLIC, CJK …"""
    return Counter(unicodedata.name(each, "?").split()[0] for each in text if each.isalpha())
