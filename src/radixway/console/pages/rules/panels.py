"""Panels beside the editor: what would change, what edited rules would do, and past versions."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from difflib import unified_diff
from typing import Any

from nicegui import ui

from radixway.console.components import (
    draw_card,
    draw_chip,
    draw_empty,
    draw_table,
    draw_text,
    format_time,
)
from radixway.console.page import PageVisit
from radixway.console.pages.rules.editor import RulesEditor
from radixway.console.texts import TextCatalog

_DIFF_CLASSES = {"+": "rw-added", "-": "rw-removed", "@": "rw-hunk"}
_CONTEXT_LINES = 3
_MAX_TEXTS = 50
_FIELDS = ("model", "category", "rule", "blocked", "reasoning")


def draw_diff(before: str, after: str, same: str) -> None:
    """Draw the lines added and removed from `before` to `after`; `same` is shown where nothing differs."""
    lines = list(unified_diff(before.splitlines(), after.splitlines(), lineterm="", n=_CONTEXT_LINES))[2:]
    if not lines:
        ui.label(same).classes("rw-muted")
        return
    with ui.element("div").classes("rw-diff"):
        for line in lines:
            ui.label(line).classes(f"rw-diff-line {_DIFF_CLASSES.get(line[:1], '')}")


class TryoutPanel:
    """Replays edited rules on recent requests and on given prompts. Drawn where it is made."""

    def __init__(self, visit: PageVisit, editor: RulesEditor) -> None:
        self._visit = visit
        self._editor = editor
        say = visit.say
        with draw_card(say("rules.try")):
            ui.label(say("rules.try.how")).classes("rw-muted rw-small")
            with ui.element("div").classes("rw-fields"):
                self._latest = ui.number(say("rules.latest"), value=1000, min=0, max=10_000, precision=0)
            self._latest.props("outlined dense")
            self._texts = ui.textarea(say("rules.texts")).props("outlined autogrow dense")
            with ui.element("div").classes("rw-row"):
                ui.button(say("rules.try.go"), icon="science", on_click=self._run_tryout).props("outline")
            self._data = ui.element("div").classes("rw-stack rw-trial").props('id="rw-trial"')

    async def _run_tryout(self) -> None:
        lines = str(self._texts.value or "").splitlines()
        texts = [line.strip() for line in lines if line.strip()][:_MAX_TEXTS]
        with self._data:
            async with self._visit.catch_call_errors():
                body = {
                    "text": await self._editor.read_text(),
                    "latest": int(self._latest.value or 0),
                    "texts": texts,
                }
                data = await self._visit.gateway.send_request(
                    "POST", "/config/semantic/try", body=body, timeout_s=120
                )
                self._data.clear()
                self._draw_result(data, texts)

    def _draw_result(self, data: Mapping[str, Any], texts: list[str]) -> None:
        say = self._visit.say
        with ui.element("div").classes("rw-row"):
            draw_chip(say("rules.judged", count=data["judged"]))
            draw_chip(say("rules.changed", count=data["changed"]), "warn" if data["changed"] else "good")
            if data["unknown"]:
                draw_chip(say("rules.unknown", count=data["unknown"]))
            for name in _FIELDS:
                if data["by"][name]:
                    draw_chip(say(f"rules.by.{name}", count=data["by"][name]), "warn")
        if data["unread"] and data["unread_matter"]:
            ui.label(say("rules.unread", count=data["unread"])).classes("rw-muted rw-small")
        if texts:
            rows = [
                (text, _describe_outcome(say, outcome["before"]), _describe_outcome(say, outcome["after"]))
                for text, outcome in zip(texts, data["texts"], strict=True)
            ]
            heads = [say("rules.text"), say("rules.before"), say("rules.after")]
            draw_table(heads, rows, marked=[bool(outcome["changed"]) for outcome in data["texts"]])
        if data["requests"]:
            self._draw_requests(data)
        elif not texts and not data["judged"]:
            draw_empty(say("rules.no_traffic"))

    def _draw_requests(self, data: Mapping[str, Any]) -> None:
        say = self._visit.say
        rows = [
            (
                format_time(outcome["began_at"], "%H:%M:%S"),
                outcome["request_id"],
                _describe_outcome(say, outcome["before"]),
                _describe_outcome(say, outcome["after"])
                if outcome["after"]
                else say("rules.needs", kinds=", ".join(outcome["missing"])),
            )
            for outcome in data["requests"]
        ]
        heads = ("when", "request", "before", "after")
        draw_table([say(f"rules.{head}") for head in heads], rows)


class VersionHistory:
    """Texts that were in force; `back` puts a version into force again. Drawn where it is made."""

    def __init__(self, visit: PageVisit, back: Callable[[str], Awaitable[None]]) -> None:
        self._visit = visit
        self._back = back
        with draw_card(visit.say("rules.past")):
            self._list = ui.element("div").classes("rw-stack rw-versions").props('id="rw-history"')

    def show_versions(
        self, past: Sequence[Mapping[str, Any]], current: str | None, text: str, *, editable: bool
    ) -> None:
        """Show `past` versions; `text` is that of `current`, with which the others are compared."""
        say = self._visit.say
        self._list.clear()
        with self._list:
            if not past:
                draw_empty(say("rules.past.none"))
            for saved in past:
                version = saved["version"]
                with ui.element("div").classes("rw-row rw-past"):
                    ui.label(format_time(saved["saved_at"])).classes("rw-number")
                    ui.label(version[:8]).classes("rw-mono rw-muted")
                    if version == current:
                        draw_chip(say("rules.past.current"), "good")
                        continue
                    look = ui.button(say("rules.past.look")).props("flat dense")
                    look.on_click(lambda version=version: self._show_version(version, text))
                    if editable:
                        back = ui.button(say("rules.past.back")).props("flat dense")
                        back.on_click(lambda version=version: self._back(version))

    async def _show_version(self, version: str, text: str) -> None:
        say = self._visit.say
        async with self._visit.catch_call_errors():
            old = await self._visit.gateway.get_json(f"/config/semantic/rules/{version}")
            with self._visit.around, ui.dialog() as dialog, ui.element("div") as card:
                card.classes("rw-card rw-question wide")
                draw_text(say("rules.difference"), "h2")
                draw_diff(text, old, say("rules.same"))
                ui.button(say("frame.close"), on_click=dialog.close).props("flat")
            await dialog
            dialog.delete()


def _describe_outcome(say: TextCatalog, outcome: Mapping[str, Any]) -> str:
    if outcome["blocked"]:
        return say("rules.blocked_by", rule=outcome["rule"] or "–")
    thinks = say("rules.thinks") if outcome["reasoning"] else None
    parts = [outcome["model"] or "–", outcome["category"], outcome["rule"], thinks]
    return " · ".join(part for part in parts if part)
