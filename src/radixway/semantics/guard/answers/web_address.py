"""Addresses in a text: where they begin and end as Markdown, HTML or plain text has them, and their hosts."""

from __future__ import annotations

import html
import re
from typing import NamedTuple
from urllib.parse import unquote_plus

LONGEST_BEGINNING = 32
"""Characters before `://`: a scheme, maybe in HTML's entities."""

_WORD = r"[A-Za-z0-9&#;+.\-]"
_BEGIN = re.compile(
    rf"{_WORD}{{2,{LONGEST_BEGINNING}}}:[/\\]{{2}}"
    rf"|(?<!{_WORD})(?:https?|ftp|wss?):[/\\]?(?=[\w\[])"
    r"|(?<=[(\"'=<;])[/\\]{2}(?=[\w\[])"
    rf"|(?<!{_WORD})www\.(?=\w)",
    re.IGNORECASE,
)
_BEGUN = re.compile(rf"(?:{_WORD}{{1,{LONGEST_BEGINNING}}}(?::[/\\]{{0,2}})?|(?<=[(\"'=<;])[/\\]{{1,2}})\Z")
_IN_TEXT = re.compile(r"[^\s<>\"`，。；、！？（）“”「」《》]*")
_AFTER_REST = r"[\s<>()\"`，。；、！？（）“”「」《》]"
_INVISIBLE = re.compile(r"[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff]")
_PARTS = re.compile(
    r"(?:[\w.+\-]*:)?[/\\]*(?P<authority>[^/\\?#]*)(?P<path>[^?#]*)(?:\?(?P<query>[^#]*))?(?:#(?P<fragment>.*))?",
    re.DOTALL,
)
_LOADS = re.compile(
    r"!\[[^\[\]]{0,2000}\]\(\s*<?\Z|\bsrc(?:set)?\s*=\s*[\"']?\Z|\burl\(\s*[\"']?\Z", re.IGNORECASE
)


class WebAddress(NamedTuple):
    """The parts of an address, with percent signs and entities decoded in all but the host's names."""

    host: str
    user: str
    path: str
    query: str
    fragment: str
    loads: bool
    """Whoever shows the text fetches it at once: a picture."""


def find_next_address(text: str, start: int) -> int | None:
    """Return where the next address from `start` on begins."""
    found = _BEGIN.search(text, start)
    return None if found is None else found.start()


def find_partial_address(text: str, start: int) -> int:
    """Return where what may become an address begins at the end of `text`; if nothing may, its end."""
    found = _BEGUN.search(text, max(start, len(text) - LONGEST_BEGINNING - 3))
    return len(text) if found is None else found.start()


def find_address_end(text: str, begin: int, most: int) -> tuple[int, bool]:
    """Return where the address from `begin` on ends within `most` characters, and whether that is sure.

    It is not while more of it may follow.
    """
    closing = _closing_pattern(text, begin)
    limit = min(len(text), begin + most)
    if closing is not None:
        found = re.compile(closing).search(text, begin, limit)
        return (limit, False) if found is None else (found.start(), True)
    end = _IN_TEXT.match(text, begin, limit).end()  # type: ignore[union-attr]
    depth = 0
    for at in range(begin, end):
        depth += (text[at] == "(") - (text[at] == ")")
        if depth < 0:
            return at, True
    return end, end < limit


def find_long_address_end(text: str, begin: int, at: int) -> tuple[int, bool]:
    """Return the same from `at` on, inside an address that is longer than anybody waits for."""
    closing = _closing_pattern(text, begin)
    found = re.compile(_AFTER_REST if closing is None else closing).search(text, at)
    return (len(text), False) if found is None else (found.start(), True)


def parse_address(text: str, begin: int, end: int) -> WebAddress:
    """Parse the address at `[begin, end)` as browsers do: with entities, backslashes, invisible signs."""
    spelled = _INVISIBLE.sub("", html.unescape(text[begin:end])).rstrip(".,;:!?*_'")
    parts = _PARTS.fullmatch(spelled)
    assert parts is not None  # every string has these parts
    user, _, host = parts["authority"].rpartition("@")
    host = re.sub(r":\d*\Z", "", unquote_plus(host)).lower().rstrip(".")
    loads = _LOADS.search(text, max(0, begin - 2100), begin) is not None
    path, query, fragment = (unquote_plus(parts[name] or "") for name in ("path", "query", "fragment"))
    return WebAddress(host, unquote_plus(user), path, query, fragment, loads)


def extract_hosts(text: str) -> set[str]:
    """Return every host that `text` names: in addresses, and by itself."""
    named = {match[0].lower() for match in _BARE_HOST.finditer(text)}
    begin = find_next_address(text, 0)
    while begin is not None:
        end, _ = find_address_end(text, begin, len(text))
        named.add(parse_address(text, begin, end).host)
        begin = find_next_address(text, max(end, begin + 1))
    return named


_BARE_HOST = re.compile(r"(?<![\w@.\-])(?:[a-z0-9\-]{1,63}\.)+[a-z]{2,24}(?![\w\-])", re.IGNORECASE)


def _closing_pattern(text: str, begin: int) -> str | None:
    """Return a pattern of what ends an address that stands between signs which let it have spaces."""
    before = text[max(0, begin - 2) : begin]
    if before.endswith(("(<", "=<")):
        return r"[>\n]"
    return before[-1] if before in ('="', "='") else None  # in there browsers leave line breaks out
