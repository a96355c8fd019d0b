"""Words that make a number near them what it looks like."""

from __future__ import annotations

import re


class ContextWords:
    """Words of one subject, English and Chinese, looked for in a window around a span.

    English words stand alone, in any case, in the plural, or as programs name things (`phoneNumber`); Chinese
    ones stand anywhere.
    """

    def __init__(self, english: str, chinese: str = "", *, before: int = 50, after: int = 25) -> None:
        """`english`: alternatives in lower case between bars; `chinese`: words between spaces.

        Windows in characters.
        """
        pattern = rf"(?<![a-z])(?:{english})(?:s|number|no|id)?(?![a-z])"
        if chinese:
            pattern += "|" + "|".join(chinese.split())
        self._pattern = re.compile(pattern)
        self._before = before
        self._after = after

    def near(self, text: str, begin: int, end: int) -> bool:
        """Whether one of them is in the windows before and after `text[begin:end]`."""
        return self._has_word(text, max(0, begin - self._before), begin) or self._has_word(
            text, end, end + self._after
        )

    def _has_word(self, text: str, begin: int, end: int) -> bool:
        return self._pattern.search(text[begin:end].lower()) is not None
