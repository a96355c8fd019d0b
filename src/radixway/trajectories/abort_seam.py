"""The text where one part of an answer ends and the next begins.

Each part was decoded alone. A character whose bytes lie on both sides shows as U+FFFD at the end of one and
at the beginning of the other, and a stop string that lies on both sides was seen by neither worker.
"""

from __future__ import annotations

_BROKEN = "\ufffd"
_MOST_BETWEEN = 8
"""Characters: what a few tokens at the seam can hold."""


def is_clean_splice(first: str, second: str) -> bool:
    """Whether the text of both is one after the other: no character lies across."""
    return not first.endswith(_BROKEN) and not second.startswith(_BROKEN)


def repair_splice(first: str, second: str, decoded: str) -> str | None:
    """The text of both parts, given what all their tokens decode to; None if that does not contain them.

    `second` may be shorter than its tokens are, by a stop string that was cut off.
    """
    head, tail = first.rstrip(_BROKEN), second.lstrip(_BROKEN)
    broken = len(first) - len(head) + len(second) - len(tail)
    most = max(_MOST_BETWEEN, broken)  # a run of bytes that are no characters shows one for each
    for text in (decoded, " " + decoded):  # SentencePiece drops the first space of what it decodes
        if text.startswith(head):
            rest = text[len(head) :]
            at = len(rest) - len(tail)
            if at > most or not rest.endswith(tail):
                at = rest.find(tail, 1, most + len(tail))  # 1: some character lies across
            if at >= 0:
                return head + rest[:at] + tail
    return None


def find_stop_across(text: str, seam: int, stops: list[str]) -> tuple[int, int, str] | None:
    """The first stop string to be complete in `text` that begins before `seam` and ends after it.

    Returns where it begins, where it ends, and the string.
    """
    found = []
    for stop in filter(None, stops):
        at = text.find(stop, max(0, seam - len(stop) + 1), seam + len(stop) - 1)
        if at >= 0:
            found.append((at + len(stop), at, stop))
    if not found:
        return None
    end, at, stop = min(found)
    return at, end, stop
