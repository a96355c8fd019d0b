"""The ask in a prompt that is JSON, YAML, HTML or a tag, or holds some JSON."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import yaml

from radixway.semantics.prompts.lines import MAX_CHARS, PromptLine
from radixway.semantics.prompts.wording import TEXT_KEYS, asks, label_kind, label_strength, split_sentences

_MAX_YAML_CHARS = 20_000
_YAML_LINE = re.compile(r"[A-Za-z_][\w-]*:(?:\s|$)|\s|- |#|$")
_HTML = re.compile(r"\s*<(?:!doctype html|html|body|head|div|p|table)\b", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([\w-]{1,40})\s*=\s*(?:\"([^\"]+)\"|'([^']+)')")
_BLOCKS = frozenset(
    name
    for names in (
        "address article aside blockquote br dd div dt h1 h2 h3 h4 h5 h6",
        "hr li ol p pre section table tr ul",
    )
    for name in names.split()
)
_UNSEEN = frozenset(("head", "script", "style", "title"))


class _VisibleText(HTMLParser):
    """Collects what a reader of a page sees, a line for each block."""

    def __init__(self) -> None:
        super().__init__()
        self.pieces: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in _UNSEEN
        if tag in _BLOCKS:
            self.pieces.append("\n" if tag == "br" else "\n\n")

    def handle_endtag(self, tag: str) -> None:
        self._unseen -= tag in _UNSEEN and self._unseen > 0
        if tag in _BLOCKS:
            self.pieces.append("\n\n")

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.pieces.append(data)


def html_text(text: str) -> str | None:
    """Return the visible text of `text`, if that is a page or a piece of one."""
    if not _HTML.match(text) or text.rstrip()[-1:] != ">" or len(text) > MAX_CHARS:
        return None
    parser = _VisibleText()
    parser.feed(text)
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.pieces).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() or None


def ask_in_yaml(text: str) -> str | None:
    """Return the ask in `text`, if that is a mapping in YAML with a key that names one."""
    lines = text.strip().split("\n")
    if (
        len(lines) < 2
        or len(text) > _MAX_YAML_CHARS
        or not _YAML_LINE.match(lines[0])
        or lines[0][0] in " #-"
    ):
        return None
    if not all(map(_YAML_LINE.match, lines)) or not any(label_strength(line.split(":")[0]) for line in lines):
        return None
    try:
        value = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return ask_in_json(value) if isinstance(value, dict) else None


def ask_in_tag(text: str) -> str | None:
    """Return the ask in an attribute of `text`, if that is one tag and an attribute is named like an ask."""
    if len(text) > _MAX_YAML_CHARS or not re.fullmatch(r"\s*<[^<>]+>(?:\s*</[\w-]+>)?\s*", text):
        return None
    named = {found[1]: found[2] or found[3] for found in _ATTRIBUTE.finditer(text)}
    best = max(named, key=label_strength, default="")
    return named[best] if best and label_strength(best) else None


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
