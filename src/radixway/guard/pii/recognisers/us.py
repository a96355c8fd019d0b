"""US_SSN."""

from __future__ import annotations

import re
from collections.abc import Iterator

from radixway.guard.pii.recognisers.context import Words
from radixway.guard.pii.recognisers.reading import Reading, touches_letter
from radixway.pipeline import PersonalData

# The Social Security Administration never gave out areas 000, 666 and above 899, group 00 and serial 0000.
_SSN = re.compile(
    r"(?<![0-9])(?<![0-9][.\-])(?!000|666|9)[0-9]{3}([ .\-]?)(?!00)[0-9]{2}\1(?!0000)[0-9]{4}"
    r"(?![0-9])(?![.\-][0-9])"
)
_SSN_WORDS = Words(
    "ssn|social security(?: number| no| #)?|social|ss#|itin|tin|taxpayer|tax ?id",
    "社会安全号 社会保障号 社安号",
)
_ALONE = {"-": 0.8, " ": 0.5, ".": 0.4, "": 0.2}
_BESIDE = {"-": 0.97, " ": 0.9, ".": 0.85, "": 0.85}


def find_ssns(reading: Reading) -> Iterator[PersonalData]:
    """Numbers that may have been given out: nothing else can be checked.

    0.8 with hyphens, up to 0.5 otherwise; beside a word for it 0.97, and from 0.85.
    """
    text = reading.text
    for match in _SSN.finditer(text):
        begin, end = match.span()
        if touches_letter(text, begin, end):
            continue
        confidences = _BESIDE if _SSN_WORDS.near(text, begin, end) else _ALONE
        yield PersonalData("US_SSN", begin, end, confidences[match[1]])
