"""Draining, resuming, removing and adding workers: asked first, and taken back where that is possible."""

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from radixway.console.components import ask_confirmation, draw_text, notify_done
from radixway.console.gateway_calls import CallRefusedError
from radixway.console.page import PageVisit

Worker = Mapping[str, Any]


class WorkerActions:
    """A visitor's actions on workers."""

    def __init__(self, visit: PageVisit) -> None:
        self._visit = visit
        self._say = visit.say

    async def confirm_and_run(self, name: str, worker: Worker) -> None:
        """Run `drain`, `resume` or `remove` on `worker`; ask first where requests are at stake."""
        does = {"drain": self._drain_worker, "resume": self._resume_worker, "remove": self._remove_worker}
        async with self._visit.catch_call_errors():
            if (action := does.get(name)) is not None:
                await action(worker)
                self._visit.watch.refresh_now()

    async def add_worker(self, fields: dict[str, Any], name: str) -> None:
        """Add the worker of `fields`, shown as `name`. Raises ConsoleCallError."""
        await self._visit.gateway.post_json("/add_worker", fields)
        self._visit.watch.refresh_now()
        notify_done(self._visit, self._say("workers.added", name=name))

    async def _drain_worker(self, worker: Worker) -> None:
        say, name = self._say, worker["name"]
        if not await ask_confirmation(self._visit, say("workers.drain.ask", name=name), say("workers.drain")):
            return
        await self._visit.gateway.post_json("/drain_worker", {"url": worker["url"]})

        async def undo() -> None:
            await self._resume_worker(worker)

        notify_done(self._visit, say("workers.drained", name=name), undo)

    async def _resume_worker(self, worker: Worker) -> None:
        await self._visit.gateway.post_json("/resume_worker", {"url": worker["url"]})
        self._visit.watch.refresh_now()
        notify_done(self._visit, self._say("workers.resumed", name=worker["name"]))

    async def _remove_worker(self, worker: Worker) -> None:
        say, name = self._say, worker["name"]
        others = [source for source in worker["sources"] if source != "api"]
        note = say("workers.remove.comes_back", sources=", ".join(others)) if others else ""
        question, yes = say("workers.remove.ask", name=name, count=worker["in_flight"]), say("workers.remove")
        if not await ask_confirmation(self._visit, question, yes, note=note, dangerous=True):
            return
        await self._visit.gateway.post_json("/remove_worker", {"url": worker["url"]})

        async def undo() -> None:
            await self.add_worker({"url": worker["url"], **worker["given"]}, name)

        # The gateway shows no worker's key, so a worker with a key cannot be added back from here.
        notify_done(self._visit, say("workers.removed", name=name), None if worker["has_key"] else undo)


def open_add_dialog(visit: PageVisit, actions: WorkerActions) -> None:
    """Open the dialog that adds a worker; mistakes are shown at their fields, `actions` sends it."""
    say = visit.say
    with visit.around, ui.dialog() as dialog, ui.card().classes("rw-ask"):
        draw_text(say("workers.add"), "h2")
        fields = {
            "url": ui.input(say("workers.add.url")).props("autofocus type=url"),
            "models": ui.input(say("workers.add.models")),
            "pools": ui.input(say("workers.add.pools")),
            "api_key": ui.input(say("workers.add.key")).props("type=password autocomplete=off"),
        }

        async def add() -> None:
            for field in fields.values():
                field.error = None
            try:
                async with visit.catch_call_errors():
                    try:
                        filled = _filled_fields(fields)
                        await actions.add_worker(filled, filled.get("url", ""))
                    except CallRefusedError as error:
                        field_at_fault = fields.get((error.field or "").partition(".")[0])
                        if field_at_fault is None:
                            raise
                        field_at_fault.error = str(error)
                        return
                    dialog.close()
            finally:
                fields["api_key"].value = ""

        for field in fields.values():
            field.props("outlined dense").on("keydown.enter", add)
        with ui.element("div").classes("rw-row rw-end"):
            ui.button(say("frame.cancel"), on_click=dialog.close).props("flat")
            ui.button(say("workers.add.submit"), on_click=add).props("unelevated")
    dialog.on("hide", dialog.delete)
    dialog.open()


def _filled_fields(fields: dict[str, ui.input]) -> dict[str, Any]:
    filled: dict[str, Any] = {
        name: text for name, field in fields.items() if (text := (field.value or "").strip())
    }
    for name in ("models", "pools"):
        if name in filled:
            filled[name] = [part.strip() for part in filled[name].split(",") if part.strip()]
    return filled
