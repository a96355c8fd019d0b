"""The ask in a prompt that is JSON, or holds some."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from typing import Any

from radixway.semantics.prompts.lines import MAX_CHARS, PromptLine
from radixway.semantics.prompts.wording import TEXT_KEYS, asks, label_kind, label_strength, split_sentences


def find_json(text: str, lines: Sequence[PromptLine]) -> tuple[int, int] | None:
    """Return where JSON may stand in `lines`: from the first that begins so to the last that ends so."""
    shown = [line for line in lines if text[line.start : line.end].strip()]
    start = next((line.start for line in shown if text[line.start : line.end].lstrip()[0] in "{["), None)
    end = next(
        (line.end for line in reversed(shown) if text[line.start : line.end].rstrip()[-1] in "}]"), None
    )
    if start is None or end is None or end <= start or end - start > MAX_CHARS:
        return None
    return start, end


def ask_in_json(value: Any) -> str | None:
    """Return the likeliest ask in decoded JSON: by its key's name, then the longest sentence."""
    best: tuple[int, int, str] | None = None
    waiting: deque[tuple[Any, str]] = deque([(value, "")])
    seen = 0
    while waiting and seen < 2_000:
        each, key = waiting.popleft()
        seen += 1
        if isinstance(each, dict):
            if str(each.get("role")) in ("system", "assistant", "tool"):
                continue
            name = "user" if each.get("role") == "user" else ""
            waiting += [(item, name if at == "content" and name else str(at)) for at, item in each.items()]
        elif isinstance(each, list):
            waiting += [(item, key) for item in each]
        elif isinstance(each, str) and (" " in each.strip() or not each.isascii()):
            plain = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", key)
            kind = label_kind(plain)
            rank = (
                3 * label_strength(plain)
                if kind == "ask"
                else 2
                if plain in TEXT_KEYS
                else 1
                if kind is None
                else 0
            )
            rank = rank * 2 + (rank > 0 and any(map(asks, split_sentences(each)[:20])))
            if rank and (best is None or (rank, len(each)) >= best[:2]):
                best = rank, len(each), each
    return None if best is None else best[2]
