"""One text, in every language of the console."""

from __future__ import annotations

from typing import Literal, NamedTuple

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")


class Said(NamedTuple):
    """The same in each; places in braces are filled in by name."""

    en: str
    zh: str
