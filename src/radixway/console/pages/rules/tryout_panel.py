"""Replays edited rules on recent requests and on given prompts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from nicegui import ui

from radixway.console.components import draw_card, draw_chip, draw_empty, draw_table
from radixway.console.page import PageVisit
from radixway.console.pages.rules.editor import RulesEditor
from radixway.console.texts import TextCatalog

_FIELDS = ("model", "category", "rule", "blocked", "reasoning")


class TryoutPanel:
    """Drawn where it is made."""

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
            self._data = ui.element("div").classes("rw-stack").props('id="rw-trial"')

    async def _run_tryout(self) -> None:
        texts = [line.strip() for line in str(self._texts.value or "").splitlines() if line.strip()][:50]
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
                (text, _describe_outcome(say, each["before"]), _describe_outcome(say, each["after"]))
                for text, each in zip(texts, data["texts"], strict=True)
            ]
            heads = [say("rules.text"), say("rules.before"), say("rules.after")]
            draw_table(heads, rows, marked=[bool(each["changed"]) for each in data["texts"]])
        if data["requests"]:
            self._draw_requests(data)
        elif not texts and not data["judged"]:
            draw_empty(say("rules.no_traffic"))

    def _draw_requests(self, data: Mapping[str, Any]) -> None:
        say = self._visit.say
        rows = [
            (
                f"{datetime.fromtimestamp(each['began_at'], UTC):%H:%M:%S} UTC",
                each["request_id"],
                _describe_outcome(say, each["before"]),
                _describe_outcome(say, each["after"])
                if each["after"]
                else say("rules.needs", kinds=", ".join(each["missing"])),
            )
            for each in data["requests"]
        ]
        heads = ("when", "request", "before", "after")
        draw_table([say(f"rules.{head}") for head in heads], rows)


def _describe_outcome(say: TextCatalog, outcome: Mapping[str, Any]) -> str:
    if outcome["blocked"]:
        return say("rules.blocked_by", rule=outcome["rule"] or "–")
    thinks = say("rules.thinks") if outcome["reasoning"] else None
    parts = [outcome["model"] or "–", outcome["category"], outcome["rule"], thinks]
    return " · ".join(part for part in parts if part)
