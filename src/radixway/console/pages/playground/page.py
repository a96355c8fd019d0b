"""*Playground*: a request's form on one side, what is made of it on the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from nicegui import background_tasks, events, ui

from radixway.console.components import draw_card, draw_chip, draw_empty, draw_page_title
from radixway.console.gateway_calls import CallRefusedError, ConsoleCallError, GatewayCalls, SignedOutError
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.pages.playground.answer_panel import AnswerPanel
from radixway.console.pages.playground.findings import draw_findings

_AUTO = "auto"
_MAX_LINKED_CHARS = 4000
"""Characters of a prompt that an address may bring."""
_JOURNAL_PAUSES_S = (0.05, 0.2, 0.5, 1.0, 2.0, 4.0)
"""Pauses before a journal is asked for again: it is kept once the gateway has noticed the answer's end."""


async def build_playground_page(visit: PageVisit) -> None:
    """Build the page for `visit`."""
    say = visit.say
    draw_page_title(say("playground.title"))
    listed = await visit.gateway.get_json("/v1/models")
    models = [str(model["id"]) for model in listed["data"]]
    with ui.element("div").classes("rw-playground"):
        with ui.element("div").classes("rw-card rw-form"):
            form = _PromptForm(visit, models)
            buttons = ui.element("div").classes("rw-row")
        outcome = ui.element("div").classes("rw-stack").props('aria-live="off"')
        with outcome, ui.element("div").classes("rw-card"):
            draw_empty(say("playground.hint"))
    actions = _PlaygroundActions(visit, form, outcome)
    with buttons:
        run = ui.button(say("playground.run"), icon="play_arrow", on_click=actions.run_prompt)
        run.props("unelevated")
        look = ui.button(say("playground.look"), icon="visibility", on_click=actions.dry_run)
        look.props("outline")
        for button in (run, look):
            button.bind_enabled_from(actions, "busy", lambda busy: not busy)
        stop = ui.button(say("playground.stop"), icon="stop", on_click=actions.cancel_work)
        stop.props("outline color=negative").bind_visibility_from(actions, "busy")
    form.prompt.on("keydown.ctrl.enter", actions.run_prompt)
    form.prompt.on("keydown.meta.enter", actions.run_prompt)
    ui.context.client.on_delete(actions.leave)
    form.prompt.set_value(visit.request.query_params.get("prompt", "")[:_MAX_LINKED_CHARS])

    async def run_given(event: events.GenericEventArguments) -> None:
        form.prompt.set_value(str(event.args))
        await actions.run_prompt()

    ui.on("rw-prompt", run_given)
    ui.timer(0, lambda: ui.run_javascript("radixway.tell_prompt()"), once=True)


class _PlaygroundActions:
    """Handlers of the buttons."""

    def __init__(self, visit: PageVisit, form: _PromptForm, outcome: ui.element) -> None:
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
        """Have the request answered."""
        await self._start_work(self._run_prompt)

    def cancel_work(self) -> None:
        """End what is in progress."""
        if self._task is not None:
            self._task.cancel()

    def leave(self) -> None:
        """Stop, as the page has been left."""
        self._is_left = True
        self.cancel_work()

    async def _start_work(self, work: Callable[[Mapping[str, Any]], Awaitable[None]]) -> None:
        if self.busy:
            return
        try:
            body = self._form.request_body()
        except FormError as error:
            ui.notify(str(error), type="warning")
            return
        self.busy = True
        self._outcome.clear()

        async def run_work() -> None:
            try:
                with self._outcome:
                    async with self._visit.catch_call_errors():
                        await work(body)
            finally:
                self.busy = False
                self._task = None

        self._task = background_tasks.create(run_work(), name="playground")

    async def _dry_run(self, body: Mapping[str, Any]) -> None:
        text = self._form.text
        classifying = asyncio.ensure_future(self._classify_prompt(text))
        try:
            data = await self._visit.gateway.post_json("/rehearse", body)
        except BaseException:
            classifying.cancel()
            raise
        self._draw_outcome(data)
        if data["answer"] is not None:
            with draw_card(self._visit.say("playground.answer")):
                ui.label(_answer_text(data["answer"])).classes("rw-text")
        draw_findings(self._visit, text, data["steps"], data["model"], await classifying, data["sent"])

    async def _run_prompt(self, body: Mapping[str, Any]) -> None:
        visit, text, key = self._visit, self._form.text, self._form.key
        calls = visit.gateway if key is None else GatewayCalls(visit.gateway.line, lambda: key)
        with draw_card(visit.say("playground.answer")):
            answer = AnswerPanel(visit)
            below = ui.element("div").classes("rw-stack")
        rest = ui.element("div").classes("rw-stack")
        classifying = asyncio.ensure_future(self._classify_prompt(text))
        try:
            await answer.stream_answer(calls, body)
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
            journal = await self._fetch_journal(answer.request_id)
            chosen = [step.get("model") for step in journal if step["step"] == "semantic"][-1:]
            draw_findings(visit, text, journal, next(iter(chosen), None) or body["model"], await classifying)

    def _draw_outcome(self, data: Mapping[str, Any]) -> None:
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

    async def _fetch_journal(self, request_id: str) -> list[dict[str, Any]]:
        for pause_s in _JOURNAL_PAUSES_S:
            found = await self._visit.gateway.find_json(f"/explain/{request_id}")
            if found is not None:
                return list(found["steps"])
            await asyncio.sleep(pause_s)
        return []

    async def _classify_prompt(self, text: str) -> Any:
        """Return what classifiers say of the prompt; None where there are none."""
        options = {"pii": {"return_positions": True}, "security": {"include_reasoning": True}}
        try:
            return await self._visit.gateway.post_json(
                "/api/v1/classify/combined", {"text": text, "options": options}
            )
        except ConsoleCallError:
            return None


def _answer_text(answer: Mapping[str, Any]) -> str:
    for choice in answer.get("choices") or ():
        return str((choice.get("message") or {}).get("content") or "")
    return ""


class FormError(Exception):
    """A field cannot be read; the visitor is shown the text."""


class _PromptForm:
    """The fields, drawn where it is made."""

    def __init__(self, visit: PageVisit, models: Sequence[str]) -> None:
        say = self._say = visit.say
        names = [_AUTO, *(name for name in models if name != _AUTO)]
        self.prompt = ui.textarea(say("playground.prompt"), placeholder=say("playground.prompt.hint"))
        self.prompt.props("outlined autogrow stack-label data-search").classes("rw-prompt")
        self.system = ui.textarea(say("playground.system")).props("outlined autogrow dense")
        with ui.element("div").classes("rw-fields"):
            self.model = ui.select(names, value=_AUTO, label=say("playground.model")).props("outlined dense")
            self.max_tokens = ui.number(say("playground.most"), value=256, min=1, precision=0)
            self.max_tokens.props("outlined dense")
            self.temperature = ui.number(say("playground.temperature"), min=0, step=0.1)
            self.temperature.props("outlined dense clearable")
        with ui.expansion(say("playground.more")).classes("rw-more").props("dense"):
            self.tools = ui.textarea(say("playground.tools"), placeholder="[]")
            self.tools.props("outlined autogrow dense stack-label spellcheck=false").classes("rw-mono")
            self.extra = ui.textarea(say("playground.extra"), placeholder='{"top_p": 0.9}')
            self.extra.props("outlined autogrow dense stack-label spellcheck=false").classes("rw-mono")
            self._key = ui.input(say("playground.key")).props("outlined dense type=password autocomplete=off")

    @property
    def text(self) -> str:
        """Return the prompt."""
        return self.prompt.value or ""

    @property
    def key(self) -> str | None:
        """Return the tenant's key that the request is sent with; None: the visitor's own."""
        return (self._key.value or "").strip() or None

    def request_body(self) -> dict[str, Any]:
        """Return the body of a chat completion. Raises FormError."""
        if not self.text.strip():
            raise FormError(self._say("playground.empty"))
        messages = [{"role": "user", "content": self.text}]
        if (self.system.value or "").strip():
            messages.insert(0, {"role": "system", "content": self.system.value})
        body: dict[str, Any] = {"model": self.model.value or _AUTO, "messages": messages}
        if self.max_tokens.value is not None:
            body["max_tokens"] = int(self.max_tokens.value)
        if self.temperature.value is not None:
            body["temperature"] = float(self.temperature.value)
        tools = self._parse_json(self.tools.value, list, "playground.tools")
        if tools:
            body["tools"] = tools
        return body | (self._parse_json(self.extra.value, dict, "playground.extra") or {})

    def _parse_json(self, text: str | None, kind: type, label: str) -> Any:
        if not (text or "").strip():
            return None
        try:
            return msgspec.json.decode(text or "", type=kind)
        except msgspec.DecodeError as error:
            raise FormError(self._say("playground.no_json", field=self._say(label), why=str(error))) from None


PAGE = ConsolePage(
    name="playground", path="/playground", icon="psychology", key="p", build=build_playground_page
)
