"""Mounts each page at its path, in the frame."""

from __future__ import annotations

import logging
from typing import Any

from nicegui import app, ui
from starlette.requests import Request

from radixway.console.assets import script_url, stylesheet_url
from radixway.console.gateway_calls import GatewayCalls, GatewayConnection
from radixway.console.gateway_watch import GatewayWatch
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.page_frame import draw_frame
from radixway.console.pages import PAGES
from radixway.console.preferences import PREFERENCES
from radixway.console.sign_in_sessions import SignInSessions
from radixway.console.texts import TextCatalog

log = logging.getLogger(__name__)


def add_pages(line: GatewayConnection, sign_ins: SignInSessions, watch: GatewayWatch) -> None:
    """Mount every page of `PAGES`, the first one at `/` too; `watch` reads the gateway for all of them."""
    for page in PAGES:
        for path in (page.path, *page.also):
            _add_page(page, path, line, sign_ins, watch)
    _add_page(PAGES[0], "/", line, sign_ins, watch)
    app.on_exception(lambda error: log.error("a page failed", exc_info=error))


def _add_page(
    page: ConsolePage, path: str, line: GatewayConnection, sign_ins: SignInSessions, watch: GatewayWatch
) -> None:
    @_VisitorPage(path, response_timeout=30)
    async def show(request: Request) -> None:
        preferences = PREFERENCES.get()
        say = TextCatalog(preferences.language)
        signed_in = request.state.signed_in
        ui.add_head_html(
            f'<link rel="stylesheet" href="{stylesheet_url()}"><script defer src="{script_url()}"></script>'
        )
        ui.page_title(f"{say(f'page.{page.name}')} · {say('frame.product')}")
        visit = PageVisit(
            request=request,
            gateway=GatewayCalls(line, signed_in),
            say=say,
            preferences=preferences,
            watch=watch,
            signs_out=signed_in.key is not None,
            around=ui.element("div").classes("rw-around"),
        )
        watch.request_updates(visit.gateway)
        visit.on_signed_out = lambda: sign_ins.expire_session(signed_in)
        with draw_frame(visit, page, lambda: sign_ins.is_over(signed_in)):
            async with visit.catch_call_errors():
                await page.build(visit)


class _VisitorPage(ui.page):
    """In each visitor's own language and colours, where NiceGUI has one of each for all."""

    def resolve_language(self) -> Any:
        """Return the language of Quasar's own words and of the page's `lang`."""
        return {"en": "en-GB", "zh": "zh-CN"}[PREFERENCES.get().language]

    def resolve_dark(self) -> bool | None:
        """None: as the system has it."""
        return PREFERENCES.get().dark
