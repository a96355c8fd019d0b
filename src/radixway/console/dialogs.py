"""Asks before something is done, and offers to take it back.

Asks for a few words before something is done with them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from nicegui import ui

from radixway.console.page import PageVisit

_SHOWN_S = 4.0
_UNDO_FOR_S = 12.0


async def ask_confirmation(
    visit: PageVisit, question: str, yes: str, *, note: str = "", dangerous: bool = False
) -> bool:
    """Ask `question`, with the button `yes`; return the visitor's choice."""
    with visit.around, ui.dialog() as dialog, ui.card().classes("rw-ask").props("role=alertdialog"):
        ui.label(question)
        if note:
            ui.label(note).classes("rw-muted")
        with ui.element("div").classes("rw-row rw-end"):
            ui.button(visit.say("frame.cancel"), on_click=lambda: dialog.submit(False)).props(
                "flat autofocus"
            )
            ui.button(
                yes, on_click=lambda: dialog.submit(True), color="negative" if dangerous else "primary"
            ).props("unelevated")
    answer = await dialog
    dialog.delete()
    return bool(answer)


def notify_done(visit: PageVisit, text: str, undo: Callable[[], Awaitable[None]] | None = None) -> None:
    """Says that it was done; `undo` takes it back for as long as this is shown."""
    with visit.around, ui.element("div").classes("rw-said").props("role=status") as said:
        ui.label(text)
        if undo is not None:
            take_back = undo

            async def take() -> None:
                with visit.around:
                    said.delete()
                    async with visit.catch_call_errors():
                        await take_back()

            ui.button(visit.say("frame.undo"), on_click=take).props("flat dense")
        ui.timer(_SHOWN_S if undo is None else _UNDO_FOR_S, said.delete, once=True)


async def ask_for_text(visit: PageVisit, title: str, text: str, *, short: bool = False) -> str | None:
    """Ask for a text under `title`; return it, None where the visitor cancels."""
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
