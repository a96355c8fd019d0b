"""Draining, resuming, removing and adding workers: asked first, and taken back where that is possible."""

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from radixway.console.components import FormField, ask_confirmation, notify_done, open_form, split_names
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


def open_add_form(visit: PageVisit, actions: WorkerActions) -> None:
    """Open the form that adds a worker by `actions`."""
    say = visit.say

    def draw_fields() -> dict[str, FormField]:
        return {
            "url": ui.input(say("workers.add.url")).props("type=url"),
            "models": ui.input(say("workers.add.models")),
            "pools": ui.input(say("workers.add.pools")),
            "api_key": ui.input(say("workers.add.key")).props("type=password autocomplete=off"),
        }

    async def add(fields: Mapping[str, FormField]) -> None:
        try:
            filled = _filled_fields(fields)
            await actions.add_worker(filled, filled.get("url", ""))
        finally:
            fields["api_key"].value = ""

    open_form(visit, say("workers.add"), say("workers.add.submit"), draw_fields, add)


def _filled_fields(fields: Mapping[str, FormField]) -> dict[str, Any]:
    filled: dict[str, Any] = {
        name: text for name, field in fields.items() if (text := (field.value or "").strip())
    }
    return filled | {name: split_names(filled[name]) for name in ("models", "pools") if name in filled}
