"""All that the console says, by key and language: a file per page, each text beside its translations.

So a text cannot be missing in one language only.
"""

from __future__ import annotations

from typing import Any

from radixway.console.texts import (
    chat,
    frame,
    live,
    playground,
    prefixes,
    requests,
    rules,
    signing,
    simulate,
    workers,
)
from radixway.console.texts.said import LANGUAGES, Language, Said

__all__ = ["LANGUAGES", "TEXTS", "Language", "Said", "Say"]

TEXTS: dict[str, Said] = {
    **frame.TEXTS,
    **live.TEXTS,
    **signing.TEXTS,
    **workers.TEXTS,
    **playground.TEXTS,
    **chat.TEXTS,
    **rules.TEXTS,
    **requests.TEXTS,
    **prefixes.TEXTS,
    **simulate.TEXTS,
}


class Say:
    """Texts in one language."""

    def __init__(self, language: Language) -> None:
        self.language = language

    def __call__(self, key: str, **places: Any) -> str:
        """The text with its places filled in. Raises KeyError for a key that there is not."""
        text: str = getattr(TEXTS[key], self.language)
        return text.format(**places) if places else text
