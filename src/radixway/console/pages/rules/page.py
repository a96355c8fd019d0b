"""The editor, its mistakes, what would change, and the buttons that apply and take back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from radixway.console.components import ask_confirmation, draw_card, draw_chip, draw_empty
from radixway.console.gateway_calls import CallRefusedError
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.pages.rules.editor import RulesEditor, with_newlines
from radixway.console.pages.rules.tryout_panel import TryoutPanel
from radixway.console.pages.rules.version_history import VersionHistory, draw_diff

_PATH = "/config/semantic/rules"


async def build_rules_page(visit: PageVisit) -> None:
    """Build the page for `visit`."""
    say = visit.say
    with ui.element("div").classes("rw-page-title"):
        with ui.element("h1"):
            ui.label(say("rules.title"))
        state = ui.element("div").classes("rw-row")
    try:
        rules = await visit.gateway.get_json(_PATH)
    except CallRefusedError as error:
        if error.status != 404:
            raise
        with ui.element("div").classes("rw-card"):
            draw_empty(say("rules.off"))
            ui.label(say("rules.off.how")).classes("rw-text rw-mono rw-code")
        return
    _RulesActions(visit, rules, state).draw_page()


class _RulesActions:
    """What the gateway has, what stands in the editor, and what becomes of it."""

    def __init__(self, visit: PageVisit, rules: Mapping[str, Any], state: ui.element) -> None:
        self._visit = visit
        self._rules = rules
        self._state = state
        self._editor: RulesEditor | None = None

    def draw_page(self) -> None:
        """All of it."""
        say, rules = self._visit.say, self._rules
        with ui.element("div").classes("rw-rules"):
            with draw_card(say("rules.text.title")):
                ui.label(rules["file"] or say("rules.no_file")).classes("rw-mono rw-muted rw-small")
                self._trouble = ui.element("div").classes("rw-stack")
                buttons = ui.element("div").classes("rw-row")
                self._editor = RulesEditor(
                    self._visit, self._saved_text, self._text_changed, editable=rules["editable"]
                )
                buttons.move(target_index=-1)
                with buttons:
                    self._apply = ui.button(say("rules.apply"), icon="check", on_click=self.apply_rules)
                    self._apply.props("unelevated")
                    self._discard = ui.button(say("rules.discard"), on_click=self.discard_changes).props(
                        "flat"
                    )
            with ui.element("div").classes("rw-stack"):
                with draw_card(say("rules.difference")):
                    self._difference = ui.element("div").props('id="rw-difference"')
                TryoutPanel(self._visit, self._editor)
                self._history = VersionHistory(self._visit, self.roll_back)
        self._show_current()

    def _show_current(self) -> None:
        """What the gateway has."""
        say, rules = self._visit.say, self._rules
        self._state.clear()
        with self._state:
            draw_chip(say("rules.in_force", checksum=rules["in_force"]["checksum"]), "good")
            if rules["error"]:
                draw_chip(say("rules.not_taken"), "bad")
        self._trouble.clear()
        with self._trouble:
            for why in (rules["error"], rules["why_not"]):
                if why:
                    ui.label(why).classes("rw-trouble")
        text, past = rules["in_force"]["text"], rules["past"]
        self._history.show_versions(past, rules["version"], text, editable=rules["editable"])
        if self._editor is not None:
            self._editor.mark_saved(self._saved_text)
        self._text_changed()

    @property
    def _saved_text(self) -> str:
        """What stands in the file; where there is none, what is in force."""
        text = self._rules["text"]
        return with_newlines(self._rules["in_force"]["text"] if text is None else text)

    def _text_changed(self) -> None:
        editor = self._editor
        if editor is None or not hasattr(self, "_history"):
            return  # while it is drawn
        in_force, file = with_newlines(self._rules["in_force"]["text"]), self._saved_text
        self._difference.clear()
        with self._difference:
            draw_diff(in_force, editor.text, self._visit.say("rules.same"))
        differs = editor.text not in (in_force, file) or file != in_force
        good = editor.is_checked and not editor.mistakes
        self._apply.set_enabled(bool(self._rules["editable"] and differs and good))
        self._discard.set_enabled(editor.text != file)

    async def apply_rules(self) -> None:
        """Into the file, and into force."""
        editor = self._editor
        assert editor is not None
        try:
            async with self._visit.catch_call_errors():
                await self._send_rules("PUT", _PATH, {"text": await editor.read_text()})
        finally:
            self._text_changed()

    async def roll_back(self, version: str) -> None:
        """A version of the past, again."""
        editor = self._editor
        assert editor is not None
        async with self._visit.catch_call_errors():
            if await editor.read_text() != self._saved_text and not await self._confirm_discard():
                return
        async with self._visit.catch_call_errors(), editor.lock_editing():
            await self._send_rules("POST", "/config/semantic/rollback", {"version": version})
            await editor.replace_text(self._saved_text)

    async def _confirm_discard(self) -> bool:
        say = self._visit.say
        question, note = say("rules.past.back.sure"), say("rules.past.back.lost")
        return await ask_confirmation(
            self._visit, question, say("rules.past.back"), note=note, dangerous=True
        )

    async def _send_rules(self, method: str, path: str, body: Any) -> None:
        editor, say = self._editor, self._visit.say
        assert editor is not None
        headers = {"if-match": f'"{self._rules["version"]}"'}
        try:
            data = await self._visit.gateway.send_request(
                method, path, body=body, headers=headers, timeout_s=120
            )
        except CallRefusedError as error:
            if error.status == 412:
                ui.notify(say("rules.changed_meanwhile"), type="warning", multi_line=True)
                await self._reload_rules()
                return
            said = error.body["error"] if isinstance(error.body, dict) else {}
            if "mistakes" in said:
                editor.mistakes = said["mistakes"]
                editor.show_mistakes(said["mistakes"])
            raise
        ui.notify(say("rules.applied", version=data["version"][:8]), type="positive")
        await self._reload_rules()

    async def _reload_rules(self) -> None:
        self._rules = await self._visit.gateway.get_json(_PATH)
        self._show_current()

    async def discard_changes(self) -> None:
        """Replace the edited text by that of the file."""
        editor = self._editor
        assert editor is not None
        async with self._visit.catch_call_errors(), editor.lock_editing():
            await self._reload_rules()
            await editor.replace_text(self._saved_text)


PAGE = ConsolePage(name="rules", path="/rules", icon="rule", key="u", build=build_rules_page)
