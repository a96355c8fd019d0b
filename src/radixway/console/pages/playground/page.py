"""The form on one side, what is made of it on the other."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import background_tasks, ui

from radixway.console.components import draw_card, draw_chip
from radixway.console.gateway_calls import CallRefusedError, ConsoleCallError, SignedOutError
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.pages.playground.answer_panel import AnswerPanel
from radixway.console.pages.playground.findings import (
    draw_decision,
    draw_journal,
    draw_safety,
    draw_tools_and_cache,
    draw_worker,
)
from radixway.console.pages.playground.form import FormError, PromptForm


async def build_playground_page(visit: PageVisit) -> None:
    """Build the page for `visit`."""
    say = visit.say
    with ui.element("div").classes("rw-page-title"), ui.element("h1"):
        ui.label(say("playground.title"))
    listed = await visit.gateway.get_json("/v1/models")
    models = [str(each["id"]) for each in listed["data"]]
    with ui.element("div").classes("rw-playground"):
        with ui.element("div").classes("rw-card rw-form"):
            form = PromptForm(visit, models)
            with ui.element("div").classes("rw-row") as buttons:
                pass
        outcome = ui.element("div").classes("rw-stack").props('aria-live="off"')
        with outcome, ui.element("div").classes("rw-card"):
            ui.label(say("playground.hint")).classes("rw-empty")
    desk = _PlaygroundActions(visit, form, outcome)
    with buttons:
        run = ui.button(say("playground.run"), icon="play_arrow", on_click=desk.run_prompt).props(
            "unelevated"
        )
        look = ui.button(say("playground.look"), icon="visibility", on_click=desk.dry_run).props("outline")
        stop = ui.button(say("playground.stop"), icon="stop", on_click=desk.cancel_work)
        stop.props("outline color=negative")
        for button in (run, look):
            button.bind_enabled_from(desk, "busy", lambda busy: not busy)
        stop.bind_visibility_from(desk, "busy")
    form.prompt.on("keydown.ctrl.enter", desk.run_prompt)
    form.prompt.on("keydown.meta.enter", desk.run_prompt)
    ui.context.client.on_delete(desk.close_desk)


class _PlaygroundActions:
    """What the buttons do."""

    def __init__(self, visit: PageVisit, form: PromptForm, outcome: ui.element) -> None:
        self.busy = False
        self._visit = visit
        self._form = form
        self._outcome = outcome
        self._task: asyncio.Task[Any] | None = None
        self._is_left = False

    async def dry_run(self) -> None:
        """Show how the request would be handled."""
        await self._start_work(self._dry_run)

    async def run_prompt(self) -> None:
        """Have it answered."""
        await self._start_work(self._run_prompt)

    def cancel_work(self) -> None:
        """End what is under way."""
        if self._task is not None:
            self._task.cancel()

    def close_desk(self) -> None:
        """Stop; the page has been left."""
        self._is_left = True
        self.cancel_work()

    async def _start_work(self, work: Any) -> None:
        if self.busy:
            return
        try:
            body = self._form.request_body()
        except FormError as error:
            ui.notify(str(error), type="warning")
            return
        self.busy = True
        self._outcome.clear()

        async def working() -> None:
            try:
                with self._outcome:
                    async with self._visit.catch_call_errors():
                        await work(body)
            finally:
                self.busy = False
                self._task = None

        self._task = background_tasks.create(working(), name="playground")

    async def _dry_run(self, body: Mapping[str, Any]) -> None:
        text = self._form.text
        classifying = asyncio.ensure_future(self._classify_prompt(text))
        try:
            data = await self._visit.gateway.post_json("/rehearse", body)
        except BaseException:
            classifying.cancel()
            raise
        await self._draw_outcome(data)
        steps = _steps_by_name(data["steps"])
        if data["answer"] is not None:
            with draw_card(self._visit.say("playground.answer")):
                ui.label(_answer_text(data["answer"])).classes("rw-text")
        await self._draw_findings(text, steps, data["steps"], data["model"], classifying, data["sent"])

    async def _draw_outcome(self, data: Mapping[str, Any]) -> None:
        say = self._visit.say
        with ui.element("div").classes("rw-card"), ui.element("div").classes("rw-row"):
            if data["outcome"] == "worker":
                draw_chip(say("playground.would.worker", worker=data["worker"]), "good")
            elif data["outcome"] == "answered":
                draw_chip(say("playground.would.answered", by=data["worker"]), "warn")
            else:
                refusal = data["refusal"]
                draw_chip(say("playground.would.refused", status=refusal["status"]), "bad")
                ui.label(refusal["message"])

    async def _run_prompt(self, body: Mapping[str, Any]) -> None:
        visit, text, key = self._visit, self._form.text, self._form.key
        asked = visit.gateway if key is None else visit.gateway.with_key(lambda: key)
        with draw_card(visit.say("playground.answer")):
            answer = AnswerPanel(visit)
            below = ui.element("div").classes("rw-stack")
        rest = ui.element("div").classes("rw-stack")
        classifying = asyncio.ensure_future(self._classify_prompt(text))
        try:
            await answer.stream_answer(asked, body)
        except asyncio.CancelledError:
            if self._is_left:
                raise
            with below:
                draw_chip(visit.say("playground.stopped"), "warn")
            if self._task is not None:
                self._task.uncancel()
        except SignedOutError as error:  # of models, not of the console: who sees all need not be a tenant
            classifying.cancel()
            with below:
                draw_chip(visit.say("playground.would.refused", status=401), "bad")
                ui.label(visit.say("playground.needs_key") if key is None else str(error))
            return
        except CallRefusedError as error:
            with below:
                draw_chip(visit.say("playground.would.refused", status=error.status), "bad")
                ui.label(str(error))
        with below:
            ui.link(visit.say("playground.request"), f"/requests/{answer.request_id}")
        with rest:
            await self._draw_explanation(answer.request_id, body, text, classifying)

    async def _draw_explanation(
        self, request_id: str, body: Mapping[str, Any], text: str, classifying: asyncio.Future[Any]
    ) -> None:
        journal = await self._fetch_journal(request_id)
        steps = _steps_by_name(journal)
        model = steps.get("semantic", {}).get("model") or body["model"]
        await self._draw_findings(text, steps, journal, model, classifying)

    async def _fetch_journal(self, request_id: str) -> list[dict[str, Any]]:
        """Kept once the gateway has noticed the end, which may be a moment after a stop."""
        for pause_s in (0.05, 0.2, 0.5, 1.0, 2.0, 4.0):
            try:
                return list((await self._visit.gateway.get_json(f"/explain/{request_id}"))["steps"])
            except CallRefusedError as error:
                if error.status != 404:
                    raise
                await asyncio.sleep(pause_s)
        return []

    async def _draw_findings(
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

    async def _classify_prompt(self, text: str) -> Any:
        """What classifiers say of the prompt; None where there are none."""
        options = {"pii": {"return_positions": True}, "security": {"include_reasoning": True}}
        try:
            return await self._visit.gateway.post_json(
                "/api/v1/classify/combined", {"text": text, "options": options}
            )
        except ConsoleCallError:
            return None


def _steps_by_name(steps: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The last of each kind."""
    return {str(step["step"]): step for step in steps}


def _answer_text(answer: Mapping[str, Any]) -> str:
    for choice in answer.get("choices") or ():
        return str((choice.get("message") or {}).get("content") or "")
    return ""


PAGE = ConsolePage(
    name="playground", path="/playground", icon="psychology", key="p", build=build_playground_page
)
