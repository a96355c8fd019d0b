"""A prompt cut into lines, tags and quotation marks."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from radixway.semantics.prompts.wording import HTML_TAGS, tag_name

PartKind = Literal["ask", "data", "frame"]
"""`frame`: instructions of the application, its reminders and templates."""

MAX_CHARS = 200_000
"""Of a longer text the first and the last half of so many are read; an ask stands at an end."""

MAX_LINES = 4_000
"""Of more lines, tags and marks the first and the last half of so many are read."""

_MARKS = re.compile(r"\n|</?([A-Za-z][\w.-]{0,40})(?:\s[^<>\n]{0,200})?>|\"\"\"|'''")


@dataclass(slots=True, eq=False)
class PromptLine:
    """A line, a tag or a quotation mark of the text."""

    start: int
    end: int
    tag: str = ""
    """A tag's name, `/name` where it closes, or the quotation mark."""
    part: PartKind = "ask"
    why: str = ""


def cut_lines(text: str) -> Iterator[PromptLine]:
    """Cut `text` at line ends, at tags that are not HTML's, and at triple quotes."""
    if len(text) <= MAX_CHARS:
        yield from _leave_middle_out(_cut_span(text, 0, len(text)), MAX_LINES)
        return
    half = MAX_CHARS // 2
    yield from _leave_middle_out(_cut_span(text, 0, half), MAX_LINES // 2)
    yield PromptLine(half, len(text) - half, "", "data", "too long")
    yield from _leave_middle_out(_cut_span(text, len(text) - half, len(text)), MAX_LINES // 2)


def _leave_middle_out(lines: Iterator[PromptLine], most: int) -> Iterator[PromptLine]:
    """Yield `lines`; of more than `most` those between the first and the last half are one, left out."""
    yield from islice(lines, most // 2)
    last: deque[PromptLine] = deque(maxlen=most // 2)
    middle: PromptLine | None = None
    for line in lines:
        if len(last) == last.maxlen:
            middle = middle or PromptLine(last[0].start, 0, "", "data", "too long")
            middle.end = last[0].end
        last.append(line)
    if middle is not None:
        yield middle
    yield from last


def _cut_span(text: str, start: int, end: int) -> Iterator[PromptLine]:
    at = start
    for mark in _MARKS.finditer(text, start, end):
        name = mark[1]
        if name is not None and name.casefold() in HTML_TAGS:
            continue
        yield PromptLine(at, mark.start())
        at = mark.end()
        if name is not None:
            closes = "/" if mark[0][1] == "/" else ""
            yield PromptLine(mark.start(), at, closes + tag_name(name))
        elif mark[0] != "\n":
            yield PromptLine(mark.start(), at, mark[0])
    yield PromptLine(at, end)
