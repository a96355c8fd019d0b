"""A page's declaration, the visit that a page is built for, and the visitor's preferences."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from nicegui import ui
from starlette.requests import HTTPConnection, Request

from radixway.console.gateway_calls import (
    CallRefusedError,
    GatewayCalls,
    GatewayUnreachableError,
    SignedOutError,
)
from radixway.console.gateway_watch import GatewayWatch
from radixway.console.texts import LANGUAGES, Language, TextCatalog

BASE = "/console"
"""Path of the pages in every deployment."""

Theme = Literal["system", "light", "dark"]
THEMES: tuple[Theme, ...] = ("system", "light", "dark")
LANGUAGE_COOKIE = "radixway_language"
THEME_COOKIE = "radixway_theme"


@dataclass(frozen=True, slots=True)
class VisitorPreferences:
    """A visitor's choice of language and theme, kept in cookies of the browser."""

    language: Language
    theme: Theme

    @property
    def dark(self) -> bool | None:
        """Return NiceGUI's value: None follows the system."""
        return {"system": None, "light": False, "dark": True}[self.theme]


PREFERENCES: ContextVar[VisitorPreferences] = ContextVar("preferences")
"""Preferences of the present request's visitor."""


def read_preferences(request: HTTPConnection) -> VisitorPreferences:
    """Read the cookies of `request`; the language else by what the browser accepts."""
    theme = request.cookies.get(THEME_COOKIE)
    language = request.cookies.get(LANGUAGE_COOKIE)
    if language not in LANGUAGES:
        language = _accepted_language(request.headers.get("accept-language", ""))
    return VisitorPreferences(language, theme if theme in THEMES else "system")


def _accepted_language(header: str) -> Language:
    """Return the first supported language of the header; browsers order them by weight."""
    for part in header.split(","):
        name = part.partition(";")[0].strip().lower().partition("-")[0]
        if name in LANGUAGES:
            return name
    return "en"


@dataclass(slots=True, eq=False)
class PageVisit:
    """A browser tab that shows one page."""

    request: Request
    gateway: GatewayCalls
    say: TextCatalog
    preferences: VisitorPreferences
    watch: GatewayWatch
    """The gateway's latest metrics and workers, read once for all visitors."""
    signs_out: bool
    """The visitor signed in with a key and can sign out."""
    around: ui.element
    """The page itself: notices and dialogs stand here, even if the element that opened them is gone."""
    on_away: Callable[[bool], object] = lambda _: None
    """The frame's banner, shown while the gateway does not answer."""
    on_signed_out: Callable[[], None] = lambda: None
    """The key is not valid any more."""
    question: ui.dialog | None = None
    """The latest question to the visitor."""

    @property
    def is_asking(self) -> bool:
        """Tell if a question is open: the second of two clicks asks nothing."""
        return self.question is not None and self.question.value

    def link(self, path: str) -> str:
        """The address of a path of the console's. `ui.navigate.to` and `ui.link` take the path itself:
        NiceGUI puts the rest before it."""
        return f"{BASE}{path}"

    @asynccontextmanager
    async def catch_call_errors(self) -> AsyncIterator[None]:
        """Wrap what a click or a timer does: a failed call is shown to the visitor, and goes no further."""
        try:
            yield
        except SignedOutError:
            self.on_signed_out()
        except GatewayUnreachableError:
            self.on_away(True)
        except CallRefusedError as error:
            ui.notify(self.say("frame.refused", message=str(error)), type="negative", multi_line=True)

    def refresh_every(self, seconds: float, refresh: Callable[[], Awaitable[None]]) -> ui.timer:
        """Call `refresh` every `seconds` while the page is open, in `catch_call_errors`."""

        async def refresh_safely() -> None:
            async with self.catch_call_errors():
                await refresh()
                self.on_away(False)

        return ui.timer(seconds, refresh_safely)

    def on_new_sample(self, show: Callable[[], None]) -> None:
        """Call `show` now, if the watch has read anything, and after each new reading."""
        seen = 0

        def show_latest() -> None:
            nonlocal seen
            if self.watch.read != seen:
                seen = self.watch.read
                show()

        show_latest()
        ui.timer(0.5, show_latest)


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """A place in the navigation."""

    name: str
    """Name of the page and its texts: `page.NAME` is its title."""
    path: str
    icon: str
    """One of Material's icons."""
    key: str
    """`g` and this leads there."""
    build: Callable[[PageVisit], Awaitable[None]]
    also: tuple[str, ...] = ()
    """Further paths that it draws."""
