"""Asks for a few words before something is done with them."""

from __future__ import annotations

from nicegui import ui

from radixway.console.page import PageVisit


async def ask_for_text(visit: PageVisit, title: str, text: str, *, short: bool = False) -> str | None:
    """What was written; None where nothing is to be done."""
    say = visit.say
    with visit.around, ui.dialog() as dialog, ui.element("div").classes("rw-card rw-question"):
        with ui.element("h2"):
            ui.label(say(title))
        field = ui.input(value=text) if short else ui.textarea(value=text).props("autogrow")
        field.props(f'outlined autofocus aria-label="{say(title)}"')
        if short:
            field.on("keydown.enter", lambda: dialog.submit(field.value))
        with ui.element("div").classes("rw-row"):
            ui.button(say("chat.ok"), on_click=lambda: dialog.submit(field.value)).props("unelevated")
            ui.button(say("frame.cancel"), on_click=dialog.close).props("flat")
    answer = await dialog
    dialog.delete()
    return answer if isinstance(answer, str) else None
