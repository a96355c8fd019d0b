"""The dialog that adds a worker."""

from __future__ import annotations

from typing import Any

from nicegui import ui

from radixway.console.calls import CallRefusedError
from radixway.console.page import PageVisit
from radixway.console.worker_actions import WorkerActions


def open_add_dialog(visit: PageVisit, actions: WorkerActions) -> None:
    """Its address and what the gateway cannot find out by itself. What is wrong is said at its field."""
    say = visit.say
    with visit.around, ui.dialog() as dialog, ui.card().classes("rw-ask"):
        with ui.element("h2"):
            ui.label(say("workers.add"))
        fields = {
            "url": ui.input(say("workers.add.url")).props("outlined dense autofocus type=url"),
            "models": ui.input(say("workers.add.models")).props("outlined dense"),
            "pools": ui.input(say("workers.add.pools")).props("outlined dense"),
            "api_key": ui.input(say("workers.add.key")).props(
                "outlined dense type=password autocomplete=off"
            ),
        }

        async def add() -> None:
            for field in fields.values():
                field.error = None
            try:
                async with visit.catch_call_errors():
                    try:
                        await actions.add_worker(_filled_fields(fields))
                    except CallRefusedError as error:
                        at = fields.get((error.field or "").partition(".")[0])
                        if at is None:
                            raise
                        at.error = str(error)
                        return
                    dialog.close()
            finally:
                fields["api_key"].value = ""

        for field in fields.values():
            field.on("keydown.enter", add)
        with ui.element("div").classes("rw-row rw-end"):
            ui.button(say("frame.cancel"), on_click=dialog.close).props("flat")
            ui.button(say("workers.add.submit"), on_click=add).props("unelevated")
    dialog.on("hide", dialog.delete)
    dialog.open()


def _filled_fields(fields: dict[str, ui.input]) -> dict[str, Any]:
    """What is filled in."""
    said: dict[str, Any] = {
        name: field.value.strip() for name, field in fields.items() if (field.value or "").strip()
    }
    for several in ("models", "pools"):
        if several in said:
            said[several] = [name for part in said[several].split(",") if (name := part.strip())]
    return said
