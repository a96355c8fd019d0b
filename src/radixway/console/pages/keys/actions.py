"""Creating, changing, blocking and deleting keys, teams and users; a key itself is shown once."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from nicegui import ui

from radixway.console.components import (
    FormField,
    ask_confirmation,
    draw_text,
    notify_done,
    open_form,
)
from radixway.console.page import PageVisit
from radixway.console.pages.keys.kinds import (
    NUMBERS,
    Record,
    RecordKind,
    changed_fields,
    field_text,
    record_name,
)

_GRACE = "24h"


class RecordActions:
    """A visitor's actions on records of `kind`; `refresh` shows what has become of them."""

    def __init__(self, visit: PageVisit, kind: RecordKind, refresh: Callable[[], Awaitable[None]]) -> None:
        self._visit = visit
        self._kind = kind
        self._refresh = refresh
        self._say = visit.say

    async def run_action(self, name: str, record: Record) -> None:
        """Run `edit`, `rotate`, `block`, `unblock` or `delete` on `record`; ask first where requests end."""
        does = {
            "edit": self._edit_record,
            "rotate": self._rotate_key,
            "block": self._block_record,
            "unblock": self._unblock_record,
            "delete": self._delete_record,
        }
        if (action := does.get(name)) is not None:
            async with self._visit.catch_call_errors():
                await action(record)
                await self._refresh()

    def open_create_dialog(self) -> None:
        """Open the dialog that creates a record."""
        self._open_form({}, self._create_record)

    async def _edit_record(self, record: Record) -> None:
        async def send(fields: dict[str, Any]) -> None:
            await self._change_record(record, fields)
            notify_done(self._visit, self._say("keys.changed", name=record_name(record)))

        self._open_form(record, send)

    async def _create_record(self, fields: dict[str, Any]) -> None:
        created = await self._visit.gateway.post_json(self._kind.path, fields)
        if "key" in created:
            self._show_once(created["key"])

    async def _change_record(self, record: Record, fields: dict[str, Any]) -> None:
        await self._visit.gateway.send_request("PATCH", self._path_of(record), body=fields)

    async def _rotate_key(self, key: Record) -> None:
        say, name = self._say, record_name(key)
        question, note = say("keys.rotate.ask", name=name), say("keys.rotate.note", grace=_GRACE)
        if not await ask_confirmation(self._visit, question, say("keys.rotate"), note=note):
            return
        rotated = await self._visit.gateway.post_json(f"{self._path_of(key)}/rotate", {"grace": _GRACE})
        self._show_once(rotated["key"])

    async def _block_record(self, record: Record) -> None:
        say, name = self._say, record_name(record)
        if not await ask_confirmation(self._visit, say("keys.block.ask", name=name), say("keys.block")):
            return
        await self._change_record(record, {"blocked": True})

        async def undo() -> None:
            await self._unblock_record(record)
            await self._refresh()

        notify_done(self._visit, say("keys.blocked", name=name), undo)

    async def _unblock_record(self, record: Record) -> None:
        await self._change_record(record, {"blocked": False})
        notify_done(self._visit, self._say("keys.unblocked", name=record_name(record)))

    async def _delete_record(self, record: Record) -> None:
        say, name = self._say, record_name(record)
        note = say("keys.delete.note", count=record["keys"]) if record.get("keys") else ""
        question = say("keys.delete.ask", name=name)
        if not await ask_confirmation(self._visit, question, say("keys.delete"), note=note, dangerous=True):
            return
        await self._visit.gateway.send_request("DELETE", self._path_of(record))
        notify_done(self._visit, say("keys.deleted", name=name))

    def _path_of(self, record: Record) -> str:
        return f"{self._kind.path}/{quote(str(record['id']), safe='')}"

    def _show_once(self, text: str) -> None:
        """Show `text`, a key itself, which nobody can see again."""
        say = self._say
        with (
            self._visit.around,
            ui.dialog().props("persistent") as dialog,
            ui.card().classes("rw-ask").props("role=alertdialog"),
        ):
            draw_text(say("keys.once"), "h2")
            ui.label(say("keys.once.note")).classes("rw-muted")
            draw_text(text, "div", "rw-code rw-mono rw-secret")
            with ui.element("div").classes("rw-row rw-end"):
                copy = ui.button(say("keys.copy"), icon="content_copy").props("outline")
                copy.on_click(lambda: ui.clipboard.write(text))
                ui.button(say("keys.once.done"), on_click=dialog.close).props("unelevated")
        dialog.on("hide", dialog.delete)
        dialog.open()

    def _open_form(self, record: Record, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        """Open a form for `record`, empty for a new one; `send` gets what was changed."""
        say, kind = self._say, self._kind
        title = say("keys.edit.title", name=record_name(record)) if record else say(f"{kind.name}.create")

        def draw_fields() -> dict[str, FormField]:
            fields: dict[str, FormField] = {}
            with ui.element("div").classes("rw-pairs"):
                for name in kind.texts:
                    if not (record and name == kind.fixed):
                        fields[name] = ui.input(say(f"keys.field.{name}"), value=field_text(record, name))
                for name in NUMBERS:
                    fields[name] = ui.number(say(f"keys.field.{name}"), value=record.get(name), min=0)
            return fields

        async def submit(fields: Mapping[str, FormField]) -> None:
            await send(changed_fields({name: field.value for name, field in fields.items()}, record))
            await self._refresh()

        open_form(self._visit, title, say("keys.save"), draw_fields, submit)
