"""Creating, changing, rotating, blocking and deleting keys; a key itself is shown once."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import quote

from nicegui import ui

from radixway.console.components import ask_confirmation, draw_text, notify_done
from radixway.console.gateway_calls import CallRefusedError
from radixway.console.page import PageVisit

Key = Mapping[str, Any]

_TEXTS = ("alias", "team", "user", "models", "endpoints", "duration", "budget_duration")
_NUMBERS = ("max_budget", "soft_budget", "rpm_limit", "tpm_limit")
_LISTS = ("models", "endpoints")
_COUNTS = ("rpm_limit", "tpm_limit")
_GRACE = "24h"


class KeyActions:
    """A visitor's actions on keys; `refresh` shows what has become of them."""

    def __init__(self, visit: PageVisit, refresh: Callable[[], Awaitable[None]]) -> None:
        self._visit = visit
        self._refresh = refresh
        self._say = visit.say

    async def run_action(self, name: str, key: Key) -> None:
        """Run `edit`, `rotate`, `block`, `unblock` or `delete` on `key`; ask first where it ends requests."""
        does = {
            "edit": self._edit_key,
            "rotate": self._rotate_key,
            "block": self._block_key,
            "unblock": self._unblock_key,
            "delete": self._delete_key,
        }
        if (action := does.get(name)) is not None:
            async with self._visit.catch_call_errors():
                await action(key)
                await self._refresh()

    def open_create_dialog(self) -> None:
        """Open the dialog that creates a key."""
        self._open_dialog("keys.create", {}, self._create_key)

    async def _edit_key(self, key: Key) -> None:
        async def send(fields: dict[str, Any]) -> None:
            await self._visit.gateway.send_request("PATCH", _path(key), body=fields)
            notify_done(self._visit, self._say("keys.changed", name=_name(key)))

        self._open_dialog("keys.edit", key, send)

    async def _create_key(self, fields: dict[str, Any]) -> None:
        given = {name: value for name, value in fields.items() if value is not None}
        created = await self._visit.gateway.post_json("/keys", given)
        self._show_once(created)

    async def _rotate_key(self, key: Key) -> None:
        say, name = self._say, _name(key)
        question, note = say("keys.rotate.ask", name=name), say("keys.rotate.note", grace=_GRACE)
        if not await ask_confirmation(self._visit, question, say("keys.rotate"), note=note):
            return
        rotated = await self._visit.gateway.post_json(f"{_path(key)}/rotate", {"grace": _GRACE})
        self._show_once(rotated)

    async def _block_key(self, key: Key) -> None:
        say, name = self._say, _name(key)
        if not await ask_confirmation(self._visit, say("keys.block.ask", name=name), say("keys.block")):
            return
        await self._visit.gateway.post_json(f"{_path(key)}/block")

        async def undo() -> None:
            await self._unblock_key(key)
            await self._refresh()

        notify_done(self._visit, say("keys.blocked", name=name), undo)

    async def _unblock_key(self, key: Key) -> None:
        await self._visit.gateway.post_json(f"{_path(key)}/unblock")
        notify_done(self._visit, self._say("keys.unblocked", name=_name(key)))

    async def _delete_key(self, key: Key) -> None:
        say, name = self._say, _name(key)
        question = say("keys.delete.ask", name=name)
        if not await ask_confirmation(self._visit, question, say("keys.delete"), dangerous=True):
            return
        await self._visit.gateway.send_request("DELETE", _path(key))
        notify_done(self._visit, say("keys.deleted", name=name))

    def _show_once(self, created: Mapping[str, Any]) -> None:
        """Show the key itself, which nobody can see again."""
        say, text = self._say, str(created["key"])
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

    def _open_dialog(self, title: str, key: Key, send: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
        """Open a dialog with the fields of `key`, empty for a new one; `send` gets what was filled in.

        Mistakes are shown at their fields.
        """
        say, visit = self._say, self._visit
        with visit.around, ui.dialog() as dialog, ui.card().classes("rw-ask rw-key-form"):
            draw_text(say(title), "h2")
            fields: dict[str, ui.input | ui.number] = {}
            with ui.element("div").classes("rw-pairs"):
                for name in _TEXTS:
                    fields[name] = ui.input(say(f"keys.field.{name}"), value=_field_text(key, name))
                for name in _NUMBERS:
                    value = key.get(name)
                    fields[name] = ui.number(say(f"keys.field.{name}"), value=value, min=0)

            async def submit() -> None:
                for field in fields.values():
                    field.error = None
                async with visit.catch_call_errors():
                    try:
                        await send(_filled_fields(fields, is_new=not key))
                    except CallRefusedError as error:
                        at_fault = fields.get((error.field or "").partition(".")[0])
                        if at_fault is None:
                            raise
                        at_fault.error = str(error)
                        return
                    dialog.close()
                    await self._refresh()

            for field in fields.values():
                field.props("outlined dense").on("keydown.enter", submit)
            with ui.element("div").classes("rw-row rw-end"):
                ui.button(say("frame.cancel"), on_click=dialog.close).props("flat")
                ui.button(say("keys.save"), on_click=submit).props("unelevated")
        dialog.on("hide", dialog.delete)
        dialog.open()


def _path(key: Key) -> str:
    return f"/keys/{quote(str(key['id']), safe='')}"


def _name(key: Key) -> str:
    return str(key["alias"] or key["shown"])


def _field_text(key: Key, name: str) -> str:
    value = key.get(name)
    return ", ".join(value) if isinstance(value, list) else str(value or "")


def _filled_fields(fields: Mapping[str, ui.input | ui.number], *, is_new: bool) -> dict[str, Any]:
    """Return what stands in `fields`; what is empty takes a limit away, but for the time of expiry."""
    filled: dict[str, Any] = {}
    for name, field in fields.items():
        value = field.value
        if name in _NUMBERS:
            filled[name] = None if value is None else int(value) if name in _COUNTS else float(value)
            continue
        text = str(value or "").strip()
        if name in _LISTS:
            filled[name] = [part.strip() for part in text.split(",") if part.strip()]
        elif text or name != "duration":
            filled[name] = text or None
    return {name: value for name, value in filled.items() if value or not is_new}
