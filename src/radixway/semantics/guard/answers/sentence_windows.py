"""Windows of a growing text: cut by what it says alone, and not by how it was divided.

text   [ context ][ window ……………………………… . ][ next …      at the end of a sentence, if it comes within `most`
       [ context ][ window ……………… ][ overlap    ]          else before the last word that leaves an overlap
"""

from __future__ import annotations

import re

CONTEXT = 64
"""Characters before a window that a finder sees too."""

_END = re.compile(
    r"[。！？；]|\n[ \t]*\n|(?<=[^\W\d_][^\W\d_][^\W\d_])[.!?][\"')\]]{0,2}(?=\s)|(?<=[\d)\]\"'%])[.!?](?=\s)"
)
"""The end of a sentence; a point behind one or two letters may be of an abbreviation."""
_OPEN = re.compile(r"[\d@:/\\A-ZÀ-Þ\u3040-\uffff]")
_WORD = re.compile(r"\S+")
_SPACE = re.compile(r"\s")


def find_sentence_end(text: str, begin: int, most: int) -> int | None:
    """Where the sentence that begins at `begin` ends, if it does within `most` characters."""
    found = _END.search(text, begin, min(len(text), begin + most + 1))
    return found.end() if found is not None and found.end() - begin <= most else None


def find_last_space(text: str, begin: int, end: int) -> int | None:
    """Behind the last space of `[begin, end)`."""
    for at in range(end - 1, begin - 1, -1):
        if _SPACE.match(text, at):
            return at + 1
    return None


def window_overlap(most: int) -> int:
    """How much of a window that had to be cut is seen again in the next one."""
    return min(48, most // 3)


def find_open_words(text: str, begin: int) -> int:
    """Where the words at the end begin that may be part of something longer: numbers, names, addresses.

    The last word of all is always one of them, unless there is a space behind it.
    """
    words = list(_WORD.finditer(text, begin))
    closed = len(text)
    for word in reversed(words):
        if word.end() < len(text) and not _OPEN.search(word[0]):
            break
        closed = word.start()
    return closed
