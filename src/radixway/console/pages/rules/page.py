"""The editor, its mistakes, what would change, and the buttons that apply and take back."""

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from radixway.console.components import (
    ask_confirmation,
    draw_card,
    draw_chip,
    draw_how_to_enable,
    draw_page_title,
    on_single_click,
)
from radixway.console.gateway_calls import CallRefusedError
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.pages.rules.editor import RulesEditor, with_newlines
from radixway.console.pages.rules.panels import TryoutPanel, VersionHistory, draw_diff

_PATH = "/config/semantic/rules"
_TIMEOUT_S = 120


async def build_rules_page(visit: PageVisit) -> None:
    """Build the page for `visit`."""
    say = visit.say
    with draw_page_title(say("rules.title")):
        state = ui.element("div").classes("rw-row")
    rules = await visit.gateway.find_json(_PATH)
    if rules is None:
        draw_how_to_enable(say, "rules")
    else:
        _RulesActions(visit, rules, state)


class _RulesActions:
    """Handlers: the gateway's rules, the editor's text, and applying it."""

    def __init__(self, visit: PageVisit, rules: Mapping[str, Any], state: ui.element) -> None:
        """Draw the page of `rules` for `visit`; `state` shows what is in force."""
        self._visit = visit
        self._rules = rules
        self._state = state
        say = visit.say
        with ui.element("div").classes("rw-rules"):
            with draw_card(say("rules.text.title")):
                ui.label(rules["file"] or say("rules.no_file")).classes("rw-mono rw-muted rw-small")
                self._trouble = ui.element("div").classes("rw-stack")
                self._editor = RulesEditor(
                    visit, self._saved_text, self._text_changed, editable=rules["editable"]
                )
                with ui.element("div").classes("rw-row"):
                    self._apply = ui.button(say("rules.apply"), icon="check").props("unelevated")
                    on_single_click(self._apply, self.apply_rules)
                    self._discard = ui.button(say("rules.discard"), on_click=self.discard_changes)
                    self._discard.props("flat")
            with ui.element("div").classes("rw-stack"):
                with draw_card(say("rules.difference")):
                    self._difference = ui.element("div").props('id="rw-difference"')
                self._history = VersionHistory(visit, self.roll_back)
                TryoutPanel(visit, self._editor)
        self._show_current()
        self._editor.check_soon()

    @property
    def _saved_text(self) -> str:
        """Return the file's text, or the rules in force where there is no file."""
        text = self._rules["text"]
        return with_newlines(self._rules["in_force"]["text"] if text is None else text)

    def _show_current(self) -> None:
        """Show what the gateway has."""
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
        self._editor.mark_saved(self._saved_text)
        self._text_changed()

    def _text_changed(self) -> None:
        editor, file = self._editor, self._saved_text
        in_force = with_newlines(self._rules["in_force"]["text"])
        self._difference.clear()
        with self._difference:
            draw_diff(in_force, editor.text, self._visit.say("rules.same"))
        differs = editor.text not in (in_force, file) or file != in_force
        good = editor.is_checked and not editor.mistakes
        self._apply.set_enabled(bool(self._rules["editable"] and differs and good))
        self._discard.set_enabled(editor.text != file)

    async def apply_rules(self) -> None:
        """Write the edited text into the file, and put it into force."""
        try:
            async with self._visit.catch_call_errors():
                await self._send_rules("PUT", _PATH, {"text": await self._editor.read_text()})
        finally:
            self._text_changed()

    async def roll_back(self, version: str) -> None:
        """Put `version` into force again, if the visitor is sure."""
        say, editor = self._visit.say, self._editor
        async with self._visit.catch_call_errors():
            has_edits = await editor.read_text() != self._saved_text
            question = say(
                "rules.past.back.sure" if has_edits else "rules.past.back.ask", version=version[:8]
            )
            note = say("rules.past.back.lost") if has_edits else say("rules.past.back.note")
            yes = say("rules.past.back")
            if not await ask_confirmation(self._visit, question, yes, note=note, dangerous=True):
                return
        async with self._visit.catch_call_errors(), editor.lock_editing():
            await self._send_rules("POST", "/config/semantic/rollback", {"version": version})
            await editor.replace_text(self._saved_text)

    async def discard_changes(self) -> None:
        """Replace the edited text by that of the file."""
        async with self._visit.catch_call_errors(), self._editor.lock_editing():
            await self._reload_rules()
            await self._editor.replace_text(self._saved_text)

    async def _send_rules(self, method: str, path: str, body: Any) -> None:
        say, headers = self._visit.say, {"if-match": f'"{self._rules["version"]}"'}
        try:
            data = await self._visit.gateway.send_request(
                method, path, body=body, headers=headers, timeout_s=_TIMEOUT_S
            )
        except CallRefusedError as error:
            if error.status == 412:
                ui.notify(say("rules.changed_meanwhile"), type="warning", multi_line=True)
                await self._reload_rules()
                return
            details = error.body["error"] if isinstance(error.body, dict) else {}
            if "mistakes" in details:
                self._editor.mistakes = details["mistakes"]
                self._editor.show_mistakes(details["mistakes"])
            raise
        ui.notify(say("rules.applied", version=data["version"][:8]), type="positive")
        await self._reload_rules()

    async def _reload_rules(self) -> None:
        self._rules = await self._visit.gateway.get_json(_PATH)
        self._show_current()


PAGE = ConsolePage(name="rules", path="/rules", icon="rule", key="u", build=build_rules_page)
