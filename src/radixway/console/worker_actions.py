"""Draining, resuming, removing and adding workers: asked first, and taken back where that is possible."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from radixway.console.confirming import ask_confirmation, notify_done
from radixway.console.page import PageVisit

Worker = Mapping[str, Any]


class WorkerActions:
    """What who looks does with workers."""

    def __init__(self, visit: PageVisit) -> None:
        self._visit = visit
        self._say = visit.say

    async def confirm_and_run(self, what: str, worker: Worker) -> None:
        """Do `drain`, `resume` or `remove`, after asking where somebody's requests are concerned."""
        async with self._visit.catch_call_errors():
            if what == "drain":
                await self._drain_worker(worker)
            elif what == "resume":
                await self._resume_worker(worker)
            elif what == "remove":
                await self._remove_worker(worker)
            self._visit.watch.refresh_now()

    async def add_worker(self, fields: dict[str, Any]) -> None:
        """Raises CallFailed."""
        await self._visit.gateway.post_json("/add_worker", fields)
        self._visit.watch.refresh_now()
        notify_done(self._visit, self._say("workers.added", name=fields["url"]))

    async def _drain_worker(self, worker: Worker) -> None:
        say, name = self._say, worker["name"]
        if not await ask_confirmation(self._visit, say("workers.drain.ask", name=name), say("workers.drain")):
            return
        await self._visit.gateway.post_json("/drain_worker", {"url": worker["url"]})

        async def undo() -> None:
            await self._resume_worker(worker)

        notify_done(self._visit, say("workers.drained", name=name), undo)

    async def _resume_worker(self, worker: Worker) -> None:
        await self._visit.gateway.post_json("/add_worker", {"url": worker["url"]})
        self._visit.watch.refresh_now()
        notify_done(self._visit, self._say("workers.resumed", name=worker["name"]))

    async def _remove_worker(self, worker: Worker) -> None:
        say, name = self._say, worker["name"]
        others = [source for source in worker["sources"] if source != "api"]
        note = say("workers.remove.comes_back", sources=", ".join(others)) if others else ""
        question = say("workers.remove.ask", name=name, count=worker["in_flight"])
        if not await ask_confirmation(
            self._visit, question, say("workers.remove"), note=note, dangerous=True
        ):
            return
        await self._visit.gateway.post_json("/remove_worker", {"url": worker["url"]})

        async def undo() -> None:
            await self._visit.gateway.post_json("/add_worker", {"url": worker["url"], **worker["given"]})
            self._visit.watch.refresh_now()
            notify_done(self._visit, say("workers.added", name=name))

        # Its key is not told to anybody, so one that has a key cannot be brought back by us.
        notify_done(self._visit, say("workers.removed", name=name), None if worker["has_key"] else undo)
