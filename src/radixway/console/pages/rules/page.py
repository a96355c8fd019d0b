"""The editor, its mistakes, what would change, and the buttons that apply and take back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nicegui import ui

from radixway.console.calls import Refused
from radixway.console.confirming import confirmed
from radixway.console.page import Page, Visit
from radixway.console.pages.rules.differing import draw_difference
from radixway.console.pages.rules.editing import Editor, with_newlines
from radixway.console.pages.rules.past import History
from radixway.console.pages.rules.trying import Trial
from radixway.console.parts import card, chip, empty

_PATH = "/config/semantic/rules"


async def build(visit: Visit) -> None:
    """The page."""
    say = visit.say
    with ui.element("div").classes("rw-page-title"):
        with ui.element("h1"):
            ui.label(say("rules.title"))
        state = ui.element("div").classes("rw-row")
    try:
        rules = await visit.gateway.get(_PATH)
    except Refused as error:
        if error.status != 404:
            raise
        with ui.element("div").classes("rw-card"):
            empty(say("rules.off"))
            ui.label(say("rules.off.how")).classes("rw-text rw-mono rw-code")
        return
    _Desk(visit, rules, state).draw()


class _Desk:
    """What the gateway has, what stands in the editor, and what becomes of it."""

    def __init__(self, visit: Visit, rules: Mapping[str, Any], state: ui.element) -> None:
        self._visit = visit
        self._rules = rules
        self._state = state
        self._editor: Editor | None = None

    def draw(self) -> None:
        """All of it."""
        say, rules = self._visit.say, self._rules
        with ui.element("div").classes("rw-rules"):
            with card(say("rules.text.title")):
                ui.label(rules["file"] or say("rules.no_file")).classes("rw-mono rw-muted rw-small")
                self._trouble = ui.element("div").classes("rw-stack")
                buttons = ui.element("div").classes("rw-row")
                self._editor = Editor(self._visit, self._kept, self._changed, editable=rules["editable"])
                buttons.move(target_index=-1)
                with buttons:
                    self._apply = ui.button(say("rules.apply"), icon="check", on_click=self.apply)
                    self._apply.props("unelevated")
                    self._discard = ui.button(say("rules.discard"), on_click=self.discard).props("flat")
            with ui.element("div").classes("rw-stack"):
                with card(say("rules.difference")):
                    self._difference = ui.element("div").props('id="rw-difference"')
                Trial(self._visit, self._editor)
                self._history = History(self._visit, self.roll_back)
        self._show()

    def _show(self) -> None:
        """What the gateway has."""
        say, rules = self._visit.say, self._rules
        self._state.clear()
        with self._state:
            chip(say("rules.in_force", checksum=rules["in_force"]["checksum"]), "good")
            if rules["error"]:
                chip(say("rules.not_taken"), "bad")
        self._trouble.clear()
        with self._trouble:
            for why in (rules["error"], rules["why_not"]):
                if why:
                    ui.label(why).classes("rw-trouble")
        text, past = rules["in_force"]["text"], rules["past"]
        self._history.show(past, rules["version"], text, editable=rules["editable"])
        if self._editor is not None:
            self._editor.mark_saved(self._kept)
        self._changed()

    @property
    def _kept(self) -> str:
        """What stands in the file; where there is none, what is in force."""
        text = self._rules["text"]
        return with_newlines(self._rules["in_force"]["text"] if text is None else text)

    def _changed(self) -> None:
        editor = self._editor
        if editor is None or not hasattr(self, "_history"):
            return  # while it is drawn
        in_force, file = with_newlines(self._rules["in_force"]["text"]), self._kept
        self._difference.clear()
        with self._difference:
            draw_difference(in_force, editor.text, self._visit.say("rules.same"))
        differs = editor.text not in (in_force, file) or file != in_force
        good = editor.is_checked and not editor.mistakes
        self._apply.set_enabled(bool(self._rules["editable"] and differs and good))
        self._discard.set_enabled(editor.text != file)

    async def apply(self) -> None:
        """Into the file, and into force."""
        editor = self._editor
        assert editor is not None
        try:
            async with self._visit.trying():
                await self._put("PUT", _PATH, {"text": await editor.read()})
        finally:
            self._changed()

    async def roll_back(self, version: str) -> None:
        """A version of the past, again."""
        editor = self._editor
        assert editor is not None
        async with self._visit.trying():
            if await editor.read() != self._kept and not await self._may_be_lost():
                return
        async with self._visit.trying(), editor.locked():
            await self._put("POST", "/config/semantic/rollback", {"version": version})
            await editor.put(self._kept)

    async def _may_be_lost(self) -> bool:
        say = self._visit.say
        question, note = say("rules.past.back.sure"), say("rules.past.back.lost")
        return await confirmed(self._visit, question, say("rules.past.back"), note=note, dangerous=True)

    async def _put(self, method: str, path: str, body: Any) -> None:
        editor, say = self._editor, self._visit.say
        assert editor is not None
        headers = {"if-match": f'"{self._rules["version"]}"'}
        try:
            told = await self._visit.gateway.send(method, path, body=body, headers=headers, timeout_s=120)
        except Refused as error:
            if error.status == 412:
                ui.notify(say("rules.changed_meanwhile"), type="warning", multi_line=True)
                await self._ask_again()
                return
            said = error.body["error"] if isinstance(error.body, dict) else {}
            if "mistakes" in said:
                editor.mistakes = said["mistakes"]
                editor.show(said["mistakes"])
            raise
        ui.notify(say("rules.applied", version=told["version"][:8]), type="positive")
        await self._ask_again()

    async def _ask_again(self) -> None:
        self._rules = await self._visit.gateway.get(_PATH)
        self._show()

    async def discard(self) -> None:
        """What stands in the file, again; what was written here is gone."""
        editor = self._editor
        assert editor is not None
        async with self._visit.trying(), editor.locked():
            await self._ask_again()
            await editor.put(self._kept)


PAGE = Page(name="rules", path="/rules", icon="rule", key="u", build=build)
