"""EMAIL_ADDRESS."""

from __future__ import annotations

import re
from collections.abc import Iterator

from radixway.core.pipeline import PersonalDataSpan
from radixway.semantics.guard.pii.recognisers.domains import known_length
from radixway.semantics.guard.pii.recognisers.plain_text import PlainText, Recogniser

# Nothing here is tried twice: a run of a local part's characters is entered at its beginning only, and every
# quantifier keeps what it took.
_LABEL = r"[A-Za-z0-9\u00c0-\u024f]++(?:-++[A-Za-z0-9\u00c0-\u024f]++)*+"
_EMAIL = re.compile(
    r"(?<![A-Za-z0-9._%+'\-\u00c0-\u024f])[A-Za-z0-9._%+'\-\u00c0-\u024f]++@" + rf"({_LABEL}(?:\.{_LABEL})++)"
)
_LONGEST_LOCAL = 64

_BRACKETED_AT = r" ?[\[({<] ?(?:at|@) ?[\])}>] ?"
_BRACKETED_DOT = r" ?[\[({<] ?(?:dot|\.) ?[\])}>] ?"
_SPELT_AT = re.compile(rf"{_BRACKETED_AT}| at ", re.IGNORECASE)
_SPELT_DOMAIN = re.compile(
    rf"[A-Za-z0-9\-]{{1,63}}(?:(?:{_BRACKETED_DOT}| dot |\.)[A-Za-z0-9\-]{{1,63}}){{1,4}}", re.IGNORECASE
)
_SPELT_DOT = re.compile(rf"{_BRACKETED_DOT}| dot ", re.IGNORECASE)
_SPELT_LOCAL = re.compile(r"(?<![A-Za-z0-9._%+\-])[A-Za-z0-9._%+\-]{1,64}$")


def find_emails(reading: PlainText) -> Iterator[PersonalDataSpan]:
    """0.99 under a known top-level domain, 0.6 under another one; `name (at) host dot com` 0.85."""
    if "@" in reading.text:
        yield from _find_plain(reading.text)
    lower = reading.text.lower()
    if "dot" in lower or "at)" in lower or "at]" in lower:
        yield from _find_spelt(reading.text)


def _find_plain(text: str) -> Iterator[PersonalDataSpan]:
    for match in _EMAIL.finditer(text):
        begin, at = match.start(), match.start(1) - 1
        while text[begin] in ".'-%+":
            begin += 1
        if begin == at or at - begin > _LONGEST_LOCAL or _is_repository(text, begin, match.end()):
            continue
        length = known_length(match[1])
        if length or not match[1][-1].isdigit():
            yield PersonalDataSpan(
                "EMAIL_ADDRESS", begin, at + 1 + (length or len(match[1])), 0.99 if length else 0.6
            )


def _is_repository(text: str, begin: int, end: int) -> bool:
    """`git@github.com:owner/name` is nobody's mailbox."""
    return text.startswith("git@", begin) and text[end : end + 1] == ":"


def _find_spelt(text: str) -> Iterator[PersonalDataSpan]:
    for at in _SPELT_AT.finditer(text):
        local = _SPELT_LOCAL.search(text, max(0, at.start() - _LONGEST_LOCAL - 1), at.start())
        domain = _SPELT_DOMAIN.match(text, at.end())
        if local is None or domain is None or not (at[0].strip() != "at" or _SPELT_DOT.search(domain[0])):
            continue
        name = _SPELT_DOT.sub(".", domain[0])
        if known_length(name) == len(name):
            yield PersonalDataSpan("EMAIL_ADDRESS", local.start(), domain.end(), 0.85)


RECOGNISERS = (Recogniser(("EMAIL_ADDRESS",), find_emails, fewest_digits=0),)
