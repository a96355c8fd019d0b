"""Mounts each page at its path, within the frame: the bar, the navigation, the banner, the shortcuts."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

from nicegui import Client, app, ui
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from radixway.console.assets import asset_url
from radixway.console.components import draw_icon_button, draw_page_title, draw_text
from radixway.console.gateway_calls import GatewayCalls, GatewayConnection
from radixway.console.gateway_watch import GatewayWatch
from radixway.console.page import (
    BASE,
    LANGUAGE_COOKIE,
    PREFERENCES,
    THEME_COOKIE,
    THEMES,
    ConsolePage,
    PageVisit,
    Theme,
)
from radixway.console.pages import PAGES
from radixway.console.sign_in import SignInSession, SignInSessions
from radixway.console.templates import read_template
from radixway.console.texts import LANGUAGES, TextCatalog

log = logging.getLogger(__name__)

_DRAWER_BELOW_PX = 900
_THEME_ICONS = {"system": "brightness_auto", "light": "light_mode", "dark": "dark_mode"}
_QUASAR_LANGUAGES = {"en": "en-GB", "zh": "zh-CN"}


def add_pages(line: GatewayConnection, sign_ins: SignInSessions, watch: GatewayWatch) -> None:
    """Mount every page of `PAGES`, the first one at `/` too; `watch` reads the gateway for all of them."""
    for page in PAGES:
        for path in (page.path, *page.also):
            _add_page(page, path, line, sign_ins, watch)
    _add_page(PAGES[0], "/", line, sign_ins, watch)
    _add_not_found_page(line, sign_ins, watch)
    app.on_exception(lambda error: log.error("a page failed", exc_info=error))


def _add_page(
    page: ConsolePage, path: str, line: GatewayConnection, sign_ins: SignInSessions, watch: GatewayWatch
) -> None:
    @_VisitorPage(path, response_timeout=30)
    async def show(request: Request) -> None:
        session: SignInSession = request.state.signed_in
        visit = _open_visit(request, f"page.{page.name}", line, sign_ins, watch)
        with _draw_frame(visit, page, lambda: sign_ins.is_over(session)):
            async with visit.catch_call_errors():
                await page.build(visit)


def _add_not_found_page(line: GatewayConnection, sign_ins: SignInSessions, watch: GatewayWatch) -> None:
    """Answer unknown addresses with a page of the console's own, with status 404."""

    @app.exception_handler(404)
    async def show_not_found(request: Request, error: Exception) -> Response:
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse("not found", 404)
        session: SignInSession = request.state.signed_in
        with Client(_VisitorPage(""), request=request) as client:
            visit = _open_visit(request, "frame.not_found", line, sign_ins, watch)
            say = visit.say
            with _draw_frame(visit, None, lambda: sign_ins.is_over(session)):
                draw_page_title(say("frame.not_found"))
                with ui.element("section").classes("rw-card"):
                    ui.label(say("frame.not_found.path", path=request.url.path)).classes("rw-text")
                    draw_text(say("frame.not_found.back"), "a", props=f'href="{visit.link("/")}"')
        return client.build_response(request, 404)


def _open_visit(
    request: Request, title: str, line: GatewayConnection, sign_ins: SignInSessions, watch: GatewayWatch
) -> PageVisit:
    """Begin the page that `request` asks for, whose title is the text `title`."""
    preferences = PREFERENCES.get()
    say = TextCatalog(preferences.language)
    session: SignInSession = request.state.signed_in
    ui.add_head_html(
        f'<link rel="stylesheet" href="{asset_url("console.css")}">'
        f'<script defer src="{asset_url("console.js")}"></script>'
    )
    ui.page_title(f"{say(title)} · {say('frame.product')}")
    ui.add_body_html(_skeleton_html(say, preferences.theme, title))
    visit = PageVisit(
        request=request,
        gateway=GatewayCalls(line, lambda: session.key),
        say=say,
        preferences=preferences,
        watch=watch,
        signs_out=session.key is not None,
        around=ui.element("div").classes("rw-around"),
    )
    watch.request_updates(visit.gateway)
    visit.on_signed_out = lambda: sign_ins.expire_session(session)
    return visit


def _skeleton_html(say: TextCatalog, theme: Theme, title: str) -> str:
    """Return what stands there until the page's scripts have drawn it: the bar, the links, the `title`."""
    links = "".join(
        f'<a tabindex="-1" href="{BASE}{page.path}">{escape(say(f"page.{page.name}"))}</a>' for page in PAGES
    )
    return read_template("skeleton.html").format(
        theme=theme, product=escape(say("frame.product")), title=escape(say(title)), links=links
    )


class _VisitorPage(ui.page):
    """A page with each visitor's own language and colours, where NiceGUI has one for all."""

    def resolve_language(self) -> Any:
        """Return the language of Quasar's own words and of the page's `lang`."""
        return _QUASAR_LANGUAGES[PREFERENCES.get().language]

    def resolve_dark(self) -> bool | None:
        """Return if the page is dark; None where the system decides."""
        return PREFERENCES.get().dark


@contextmanager
def _draw_frame(visit: PageVisit, current: ConsolePage | None, is_over: Callable[[], bool]) -> Iterator[None]:
    """Draw the frame of the page `current`, None for one of no name; the page is drawn within it."""
    say = visit.say
    with ui.header(elevated=False).classes("rw-bar"):
        draw_text(say("frame.skip"), "a", "rw-skip", 'href="#rw-main"')
        menu = draw_icon_button("menu", say("frame.menu")).classes("rw-menu")
        with ui.element("a").classes("rw-brand").props(f'href="{visit.link(PAGES[0].path)}"'):
            ui.element("span").classes("rw-mark").props("aria-hidden=true")
            ui.label(say("frame.product"))
        ui.space()
        theme_icon = _THEME_ICONS[visit.preferences.theme]
        _draw_preference(say, "frame.theme", theme_icon, THEME_COOKIE, THEMES)
        _draw_preference(say, "frame.language", "translate", LANGUAGE_COOKIE, LANGUAGES)
        keys = draw_icon_button("keyboard", say("frame.shortcuts")).props("id=rw-keys-button")
        keys.classes("rw-wide-only")
        keys.on("click", js_handler="() => document.getElementById('rw-keys').showModal()")
        if visit.signs_out:
            button = draw_icon_button("logout", say("frame.sign_out")).props("id=rw-sign-out")
            button.on("click", js_handler=f"() => radixway.post('{visit.link('/sign-out')}')")
    drawer = ui.left_drawer(value=False).props(f"breakpoint={_DRAWER_BELOW_PX} width=224")
    with drawer.classes("rw-drawer"):
        _draw_navigation(visit, current)
    # NiceGUI would ask each browser whether it is open, and give up after a second.
    drawer.props("show-if-above", remove="model-value")
    menu.on_click(lambda: drawer.run_method("toggle"))
    _draw_shortcuts(say)
    with ui.element("div").props('id="rw-main" tabindex="-1"').classes("rw-main"):
        _draw_banner(visit, is_over)
        yield


def _draw_navigation(visit: PageVisit, current: ConsolePage | None) -> None:
    with ui.element("nav").props(f'aria-label="{visit.say("frame.pages")}"').classes("rw-nav"):
        for page in PAGES:
            anchor = ui.element("a").props(f'href="{visit.link(page.path)}" data-key="{page.key}"')
            if page is current:
                anchor.props('aria-current="page"')
            with anchor:
                ui.icon(page.icon).props("aria-hidden=true")
                ui.label(visit.say(f"page.{page.name}"))


def _draw_preference(say: TextCatalog, name: str, icon: str, cookie: str, values: Iterable[str]) -> None:
    """Draw a menu of `values`; a choice is kept in `cookie`."""
    with draw_icon_button(icon, say(name)), ui.menu().props("auto-close"):
        for value in values:
            item = ui.menu_item(say(f"{name}.{value}"))
            if value in LANGUAGES:
                item.props(f'lang="{value}"')
            item.on("click", js_handler=f"() => radixway.prefer('{cookie}', '{value}')")


def _draw_shortcuts(say: TextCatalog) -> None:
    shortcuts = [(f"g {page.key}", say("frame.shortcut.go", page=say(f"page.{page.name}"))) for page in PAGES]
    shortcuts += [
        ("/", say("frame.shortcut.search")),
        ("?", say("frame.shortcut.help")),
        ("Esc", say("frame.shortcut.close")),
    ]
    title = say("frame.shortcuts")
    with ui.element("dialog").props(f'id="rw-keys" aria-label="{title}"').classes("rw-dialog"):
        draw_text(title, "h2")
        with ui.element("dl").classes("rw-keys"):
            for keys, does in shortcuts:
                with ui.element("dt"):
                    for key in keys.split():
                        draw_text(key, "kbd")
                draw_text(does, "dd")
        close = ui.button(say("frame.close")).props("flat autofocus")
        close.on("click", js_handler="() => document.getElementById('rw-keys').close()")


def _draw_banner(visit: PageVisit, is_over: Callable[[], bool]) -> None:
    with ui.element("div").props('role="alert"').classes("rw-banner") as banner:
        banner.set_visibility(False)
        ui.icon("cloud_off").props("aria-hidden=true")
        ui.label(visit.say("frame.away"))

    def look() -> None:
        if is_over():
            ui.navigate.reload()  # signed out, the page leads to the sign-in page and back
            return
        visit.watch.request_updates(visit.gateway)
        banner.set_visibility(visit.watch.unreachable)

    visit.on_away = banner.set_visibility
    ui.timer(1.0, look)
