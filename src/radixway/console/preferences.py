"""A visitor's preferences, kept in cookies of the browser."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from starlette.requests import HTTPConnection

from radixway.console.texts import LANGUAGES, Language

Theme = Literal["system", "light", "dark"]
THEMES: tuple[Theme, ...] = ("system", "light", "dark")
LANGUAGE_COOKIE = "radixway_language"
THEME_COOKIE = "radixway_theme"


@dataclass(frozen=True, slots=True)
class VisitorPreferences:
    """A visitor's choice of language and theme."""

    language: Language
    theme: Theme

    @property
    def dark(self) -> bool | None:
        """As NiceGUI takes it: None follows the system."""
        return {"system": None, "light": False, "dark": True}[self.theme]


PREFERENCES: ContextVar[VisitorPreferences] = ContextVar("preferences")
"""Those of the request that is being answered."""


def read_preferences(request: HTTPConnection) -> VisitorPreferences:
    """Read the cookies of `request`; the language else by what the browser accepts."""
    theme = request.cookies.get(THEME_COOKIE)
    language = request.cookies.get(LANGUAGE_COOKIE)
    if language not in LANGUAGES:
        language = _accepted_language(request.headers.get("accept-language", ""))
    return VisitorPreferences(language, theme if theme in THEMES else "system")


def _accepted_language(header: str) -> Language:
    """The first of the browser's languages that we speak; weights are in order in every browser."""
    for part in header.split(","):
        name = part.partition(";")[0].strip().lower().partition("-")[0]
        if name in LANGUAGES:
            return name
    return "en"
