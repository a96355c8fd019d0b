"""Each page at its path, in the frame, for whoever visits."""

from __future__ import annotations

import logging
from typing import Any

from nicegui import app, ui
from starlette.requests import Request

from radixway.console.assets import script, stylesheet
from radixway.console.calls import Calls, Line
from radixway.console.frame import frame
from radixway.console.page import Page, Visit
from radixway.console.pages import PAGES
from radixway.console.preferences import PREFERENCES
from radixway.console.signing import SignIns
from radixway.console.texts import Say
from radixway.console.watching import Watch

log = logging.getLogger(__name__)


def add_pages(line: Line, sign_ins: SignIns, watch: Watch) -> None:
    """Every page of `PAGES`; the first one at `/` too."""
    for page in PAGES:
        for path in (page.path, *page.also):
            _add(page, path, line, sign_ins, watch)
    _add(PAGES[0], "/", line, sign_ins, watch)
    app.on_exception(lambda error: log.error("a page failed", exc_info=error))


def _add(page: Page, path: str, line: Line, sign_ins: SignIns, watch: Watch) -> None:
    @_InTheVisitorsWay(path, response_timeout=30)
    async def show(request: Request) -> None:
        preferences = PREFERENCES.get()
        say = Say(preferences.language)
        signed_in = request.state.signed_in
        ui.add_head_html(
            f'<link rel="stylesheet" href="{stylesheet()}"><script defer src="{script()}"></script>'
        )
        ui.page_title(f"{say(f'page.{page.name}')} · {say('frame.product')}")
        visit = Visit(
            request=request,
            gateway=Calls(line, signed_in),
            say=say,
            preferences=preferences,
            watch=watch,
            signs_out=signed_in.key is not None,
            around=ui.element("div").classes("rw-around"),
        )
        watch.want(visit.gateway)
        visit.on_signed_out = lambda: sign_ins.end_with(signed_in)
        with frame(visit, page, lambda: sign_ins.is_over(signed_in)):
            async with visit.trying():
                await page.build(visit)


class _InTheVisitorsWay(ui.page):
    """In each visitor's own language and colours, where NiceGUI has one of each for all."""

    def resolve_language(self) -> Any:
        """What Quasar's own words are in, and the page's `lang`."""
        return {"en": "en-GB", "zh": "zh-CN"}[PREFERENCES.get().language]

    def resolve_dark(self) -> bool | None:
        """None: as the system has it."""
        return PREFERENCES.get().dark
