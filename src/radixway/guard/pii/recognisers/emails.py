"""EMAIL_ADDRESS."""

from __future__ import annotations

import re
from collections.abc import Iterator

from radixway.guard.pii.recognisers.reading import Reading
from radixway.guard.pii.recognisers.top_level import known_length
from radixway.pipeline import PersonalData

# Nothing here is tried twice: a run of a local part's characters is entered at its beginning only, and every
# quantifier keeps what it took.
_LABEL = r"[A-Za-z0-9\u00c0-\u024f]++(?:-++[A-Za-z0-9\u00c0-\u024f]++)*+"
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+'\-\u00c0-\u024f])[A-Za-z0-9._%+'\-\u00c0-\u024f]++@" + rf"({_LABEL}(?:\.{_LABEL})++)"
)
_LONGEST_LOCAL = 64


def find_emails(reading: Reading) -> Iterator[PersonalData]:
    """0.99 under a known top-level domain, 0.6 under another one."""
    if "@" not in reading.text:
        return
    for match in _EMAIL.finditer(reading.text):
        begin, at = match.start(), match.start(1) - 1
        while reading.text[begin] in ".'-%+":
            begin += 1
        if begin == at or at - begin > _LONGEST_LOCAL or _is_repository(reading.text, begin, match.end()):
            continue
        length = known_length(match[1])
        if length or not match[1][-1].isdigit():
            yield PersonalData(
                "EMAIL_ADDRESS", begin, at + 1 + (length or len(match[1])), 0.99 if length else 0.6
            )


def _is_repository(text: str, begin: int, end: int) -> bool:
    """`git@github.com:owner/name` is nobody's mailbox."""
    return text.startswith("git@", begin) and text[end : end + 1] == ":"
