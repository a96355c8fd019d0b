"""The form on one side, what is made of it on the other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import background_tasks, ui

from radixway.console.calls import CallFailed, Refused, SignedOut
from radixway.console.page import Page, Visit
from radixway.console.pages.playground.answering import Answer
from radixway.console.pages.playground.findings import (
    draw_decision,
    draw_journal,
    draw_safety,
    draw_tools_and_cache,
    draw_worker,
)
from radixway.console.pages.playground.form import Asker, BadForm, Form
from radixway.console.parts import card, chip


async def build(visit: Visit) -> None:
    """The page."""
    say = visit.say
    with ui.element("div").classes("rw-page-title"), ui.element("h1"):
        ui.label(say("playground.title"))
    listed = await visit.gateway.get("/v1/models")
    models = [str(each["id"]) for each in listed["data"]]
    with ui.element("div").classes("rw-playground"):
        with ui.element("div").classes("rw-card rw-form"):
            form = Form(visit, models)
            with ui.element("div").classes("rw-row") as buttons:
                pass
        outcome = ui.element("div").classes("rw-stack").props('aria-live="off"')
        with outcome, ui.element("div").classes("rw-card"):
            ui.label(say("playground.hint")).classes("rw-empty")
    desk = _Desk(visit, form, outcome)
    with buttons:
        run = ui.button(say("playground.run"), icon="play_arrow", on_click=desk.run).props("unelevated")
        look = ui.button(say("playground.look"), icon="visibility", on_click=desk.look).props("outline")
        stop = ui.button(say("playground.stop"), icon="stop", on_click=desk.stop)
        stop.props("outline color=negative")
        for button in (run, look):
            button.bind_enabled_from(desk, "busy", lambda busy: not busy)
        stop.bind_visibility_from(desk, "busy")
    form.prompt.on("keydown.ctrl.enter", desk.run)
    form.prompt.on("keydown.meta.enter", desk.run)
    ui.context.client.on_delete(desk.leave)


class _Desk:
    """What the buttons do."""

    def __init__(self, visit: Visit, form: Form, outcome: ui.element) -> None:
        self.busy = False
        self._visit = visit
        self._form = form
        self._outcome = outcome
        self._task: asyncio.Task[Any] | None = None
        self._is_left = False

    async def look(self) -> None:
        """See what would become of it."""
        await self._do(self._look)

    async def run(self) -> None:
        """Have it answered."""
        await self._do(self._run)

    def stop(self) -> None:
        """End what is under way."""
        if self._task is not None:
            self._task.cancel()

    def leave(self) -> None:
        """Nobody looks any more."""
        self._is_left = True
        self.stop()

    async def _do(self, work: Any) -> None:
        if self.busy:
            return
        try:
            body = self._form.body()
        except BadForm as error:
            ui.notify(str(error), type="warning")
            return
        self.busy = True
        self._outcome.clear()

        async def working() -> None:
            try:
                with self._outcome:
                    async with self._visit.trying():
                        await work(body)
            finally:
                self.busy = False
                self._task = None

        self._task = background_tasks.create(working(), name="playground")

    async def _look(self, body: Mapping[str, Any]) -> None:
        text = self._form.text
        classifying = asyncio.ensure_future(self._classify(text))
        try:
            told = await self._visit.gateway.post("/rehearse", body)
        except BaseException:
            classifying.cancel()
            raise
        await self._draw_outcome(told)
        steps = _by_name(told["steps"])
        if told["answer"] is not None:
            with card(self._visit.say("playground.answer")):
                ui.label(_said(told["answer"])).classes("rw-text")
        await self._findings(text, steps, told["steps"], told["model"], classifying, told["sent"])

    async def _draw_outcome(self, told: Mapping[str, Any]) -> None:
        say = self._visit.say
        with ui.element("div").classes("rw-card"), ui.element("div").classes("rw-row"):
            if told["outcome"] == "worker":
                chip(say("playground.would.worker", worker=told["worker"]), "good")
            elif told["outcome"] == "answered":
                chip(say("playground.would.answered", by=told["worker"]), "warn")
            else:
                refusal = told["refusal"]
                chip(say("playground.would.refused", status=refusal["status"]), "bad")
                ui.label(refusal["message"])

    async def _run(self, body: Mapping[str, Any]) -> None:
        visit, text, key = self._visit, self._form.text, self._form.key
        asked = visit.gateway if key is None else visit.gateway.under(Asker(key))
        with card(visit.say("playground.answer")):
            answer = Answer(visit)
            below = ui.element("div").classes("rw-stack")
        rest = ui.element("div").classes("rw-stack")
        classifying = asyncio.ensure_future(self._classify(text))
        try:
            await answer.stream(asked, body)
        except asyncio.CancelledError:
            if self._is_left:
                raise
            with below:
                chip(visit.say("playground.stopped"), "warn")
            if self._task is not None:
                self._task.uncancel()
        except SignedOut as error:  # of models, not of the console: who sees all need not be a tenant
            classifying.cancel()
            with below:
                chip(visit.say("playground.would.refused", status=401), "bad")
                ui.label(visit.say("playground.needs_key") if key is None else str(error))
            return
        except Refused as error:
            with below:
                chip(visit.say("playground.would.refused", status=error.status), "bad")
                ui.label(str(error))
        with below:
            ui.link(visit.say("playground.request"), f"/requests/{answer.request_id}")
        with rest:
            await self._explain(answer.request_id, body, text, classifying)

    async def _explain(
        self, request_id: str, body: Mapping[str, Any], text: str, classifying: asyncio.Future[Any]
    ) -> None:
        journal = await self._journal(request_id)
        steps = _by_name(journal)
        model = steps.get("semantic", {}).get("model") or body["model"]
        await self._findings(text, steps, journal, model, classifying)

    async def _journal(self, request_id: str) -> list[dict[str, Any]]:
        """Kept once the gateway has noticed the end, which may be a moment after a stop."""
        for pause_s in (0.05, 0.2, 0.5, 1.0, 2.0, 4.0):
            try:
                return list((await self._visit.gateway.get(f"/explain/{request_id}"))["steps"])
            except Refused as error:
                if error.status != 404:
                    raise
                await asyncio.sleep(pause_s)
        return []

    async def _findings(
        self,
        prompt: str,
        steps: Mapping[str, Mapping[str, Any]],
        journal: Sequence[Mapping[str, Any]],
        model: str | None,
        classifying: asyncio.Future[Any],
        sent: Any = None,
    ) -> None:
        """`prompt`: as it was asked, which may not be what stands in the form by now."""
        text = await classifying
        with ui.element("div").classes("rw-grid wide"):
            draw_decision(self._visit, steps, model, text)
            draw_safety(self._visit, prompt, text, steps)
            draw_worker(self._visit, steps)
            draw_tools_and_cache(self._visit, steps)
        draw_journal(self._visit, journal, sent)

    async def _classify(self, text: str) -> Any:
        """What classifiers say of the prompt; None where there are none."""
        options = {"pii": {"return_positions": True}, "security": {"include_reasoning": True}}
        try:
            return await self._visit.gateway.post(
                "/api/v1/classify/combined", {"text": text, "options": options}
            )
        except CallFailed:
            return None


def _by_name(steps: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The last of each kind."""
    return {str(step["step"]): step for step in steps}


def _said(answer: Mapping[str, Any]) -> str:
    for choice in answer.get("choices") or ():
        return str((choice.get("message") or {}).get("content") or "")
    return ""


PAGE = Page(name="playground", path="/playground", icon="psychology", key="p", build=build)
