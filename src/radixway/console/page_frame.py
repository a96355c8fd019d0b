"""The frame around every page: the bar, the navigation, the banner, the list of shortcuts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nicegui import ui

from radixway.console.page import ConsolePage, PageVisit
from radixway.console.pages import PAGES
from radixway.console.preferences import LANGUAGE_COOKIE, THEME_COOKIE, THEMES
from radixway.console.texts import LANGUAGES

_NARROW = 900
"""Pixels below which the navigation is a drawer."""


@contextmanager
def draw_frame(visit: PageVisit, current: ConsolePage, is_over: Callable[[], bool]) -> Iterator[None]:
    """Draw the frame of the page `current`; the page is drawn within it."""
    say = visit.say
    with ui.header(elevated=False).classes("rw-bar"):
        with ui.element("a").classes("rw-skip").props('href="#rw-main"'):
            ui.label(say("frame.skip"))
        menu = ui.button(icon="menu").props("flat round dense").classes("rw-menu")
        menu.props(f'aria-label="{say("frame.menu")}"')
        with ui.element("a").classes("rw-brand").props(f'href="{visit.link(PAGES[0].path)}"'):
            ui.element("span").classes("rw-mark").props("aria-hidden=true")
            ui.label(say("frame.product"))
        ui.space()
        _draw_theme_switch(visit)
        _draw_language_switch(visit)
        keys = ui.button(icon="keyboard").props("flat round dense id=rw-keys-button")
        keys.props(f'aria-label="{say("frame.shortcuts")}"').classes("rw-wide-only")
        keys.on("click", js_handler="() => document.getElementById('rw-keys').showModal()")
        if visit.signs_out:
            _draw_sign_out(visit)
    with ui.left_drawer(value=False).props(f"breakpoint={_NARROW} width=224").classes("rw-drawer") as drawer:
        _draw_navigation(visit, current)
    # NiceGUI would ask each browser whether it is open, and give up after a second.
    drawer.props("show-if-above", remove="model-value")
    menu.on_click(lambda: drawer.run_method("toggle"))
    _draw_shortcuts(visit)
    with ui.element("div").props('id="rw-main" tabindex="-1"').classes("rw-main"):
        _draw_banner(visit, is_over)
        yield


def _draw_navigation(visit: PageVisit, current: ConsolePage) -> None:
    label = visit.say("frame.pages")
    with ui.element("nav").props(f'aria-label="{label}"').classes("rw-nav"):
        for page in PAGES:
            link = ui.element("a").props(f'href="{visit.link(page.path)}" data-key="{page.key}"')
            if page is current:
                link.props('aria-current="page"')
            with link:
                ui.icon(page.icon).props("aria-hidden=true")
                ui.label(visit.say(f"page.{page.name}"))


def _draw_theme_switch(visit: PageVisit) -> None:
    say = visit.say
    icons = {"system": "brightness_auto", "light": "light_mode", "dark": "dark_mode"}
    with ui.button(icon=icons[visit.preferences.theme]).props("flat round dense") as button:
        button.props(f'aria-label="{say("frame.theme")}"')
        with ui.menu().props("auto-close"):
            for theme in THEMES:
                item = ui.menu_item(say(f"frame.theme.{theme}"))
                item.on("click", js_handler=f"() => radixway.prefer('{THEME_COOKIE}', '{theme}')")


def _draw_language_switch(visit: PageVisit) -> None:
    say = visit.say
    with ui.button(icon="translate").props("flat round dense") as button:
        button.props(f'aria-label="{say("frame.language")}"')
        with ui.menu().props("auto-close"):
            for language in LANGUAGES:
                item = ui.menu_item(say(f"frame.language.{language}")).props(f'lang="{language}"')
                item.on("click", js_handler=f"() => radixway.prefer('{LANGUAGE_COOKIE}', '{language}')")


def _draw_sign_out(visit: PageVisit) -> None:
    button = ui.button(icon="logout").props("flat round dense id=rw-sign-out")
    button.props(f'aria-label="{visit.say("frame.sign_out")}"')
    button.on("click", js_handler=f"() => radixway.post('{visit.link('/sign-out')}')")


def _draw_shortcuts(visit: PageVisit) -> None:
    say = visit.say
    title = say("frame.shortcuts")
    with ui.element("dialog").props(f'id="rw-keys" aria-label="{title}"').classes("rw-dialog"):
        with ui.element("h2"):
            ui.label(title)
        with ui.element("dl").classes("rw-keys"):
            for page in PAGES:
                _draw_shortcut(f"g {page.key}", say("frame.shortcut.go", page=say(f"page.{page.name}")))
            _draw_shortcut("/", say("frame.shortcut.search"))
            _draw_shortcut("?", say("frame.shortcut.help"))
            _draw_shortcut("Esc", say("frame.shortcut.close"))
        close = ui.button(say("frame.close")).props("flat autofocus")
        close.on("click", js_handler="() => document.getElementById('rw-keys').close()")


def _draw_shortcut(keys: str, does: str) -> None:
    with ui.element("dt"):
        for key in keys.split():
            with ui.element("kbd"):
                ui.label(key)
    with ui.element("dd"):
        ui.label(does)


def _draw_banner(visit: PageVisit, is_over: Callable[[], bool]) -> None:
    with ui.element("div").props('role="alert"').classes("rw-banner") as banner:
        banner.set_visibility(False)
        ui.icon("cloud_off").props("aria-hidden=true")
        ui.label(visit.say("frame.away"))

    def show(away: bool) -> None:
        banner.set_visibility(away)

    def look() -> None:
        if is_over():
            ui.navigate.to("/sign-in")  # which NiceGUI puts behind the pages' own path
            return
        visit.watch.request_updates(visit.gateway)
        show(visit.watch.away)

    visit.on_away = show
    ui.timer(1.0, look)
