"""All that the console says, by key and language: a TOML file per page, each text beside its translations.

So a text cannot be missing in one language only.
"""

import tomllib
from pathlib import Path
from typing import Any, Literal, NamedTuple

Language = Literal["en", "zh"]
LANGUAGES: tuple[Language, ...] = ("en", "zh")


class Said(NamedTuple):
    """A text in each language; names in braces are filled in."""

    en: str
    zh: str


def _read(folder: Path) -> dict[str, Said]:
    """Read every page's texts. Raises TypeError for a text that is not in each language and no other."""
    files = (tomllib.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.toml")))
    return {key: Said(**languages) for texts in files for key, languages in texts.items()}


TEXTS = _read(Path(__file__).parent)


class TextCatalog:
    """Texts in one language."""

    def __init__(self, language: Language) -> None:
        self.language = language

    def __call__(self, key: str, **places: Any) -> str:
        """The text with its places filled in. Raises KeyError for a key that there is not."""
        text: str = getattr(TEXTS[key], self.language)
        return text.format(**places) if places else text
