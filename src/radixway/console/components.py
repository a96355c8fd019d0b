"""Components that several pages share: cards, chips, facts, tables, dialogs. All that they show is text."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import msgspec
from nicegui import ui

from radixway.console.gateway_calls import CallRefusedError
from radixway.console.page import PageVisit
from radixway.console.templates import read_template
from radixway.console.texts import TEXTS, TextCatalog

FormField = ui.input | ui.number
Mood = Literal["", "good", "warn", "bad"]

_DOUBLE_CLICK_S = 0.5
_SHOWN_S = 4.0
_UNDO_FOR_S = 12.0


def draw_text(text: str, tag: str, classes: str = "", props: str = "") -> ui.label:
    """Draw `text` in an element of `tag`, which has `classes` and `props`; return its label."""
    with ui.element(tag).classes(classes).props(props):
        return ui.label(text)


def draw_page_title(text: str, classes: str = "") -> ui.element:
    """Draw the heading of a page; what is drawn within the element stands beside it."""
    with ui.element("div").classes(f"rw-page-title {classes}") as title:
        draw_text(text, "h1")
    return title


def draw_card(title: str, hint: str = "") -> ui.element:
    """Draw a card with the heading `title`, and `hint` below it; what is drawn within follows."""
    with ui.element("section").classes("rw-card") as card:
        draw_text(title, "h2")
        if hint:
            ui.label(hint).classes("rw-muted rw-small")
    return card


def draw_tile(name: str, value: str = "–", detail: str = "") -> ui.label:
    """Draw a figure called `name`, with `detail` below it; return the label of its `value`."""
    with ui.element("div").classes("rw-card rw-tile"):
        ui.label(name).classes("rw-label")
        figure = ui.label(value).classes("rw-figure")
        if detail:
            ui.label(detail).classes("rw-muted rw-small")
    return figure


def draw_chip(text: str, mood: Mood = "") -> ui.label:
    """Draw a short `text` that stands out, coloured by `mood`."""
    return draw_text(text, "span", f"rw-chip {mood or 'plain'}")


def draw_empty(text: str) -> None:
    """Draw `text` in place of a list that is empty."""
    ui.label(text).classes("rw-empty")


def draw_how_to_enable(say: TextCatalog, page: str) -> None:
    """Draw that the feature of `page` is off, and the lines of radixway.yaml that turn it on."""
    with ui.element("div").classes("rw-card"):
        draw_empty(say(f"{page}.off"))
        ui.label(say(f"{page}.off.how")).classes("rw-text rw-mono rw-code")


def on_single_click(button: ui.button, does: Callable[..., Any]) -> None:
    """Call `does` when `button` is clicked; a double click counts once."""
    button.on("click", does, throttle=_DOUBLE_CLICK_S, trailing_events=False)


def draw_icon_button(
    icon: str, label: str, does: Callable[..., Any] | None = None, *, props: str = "flat round dense"
) -> ui.button:
    """Draw a button that is an `icon` and calls `does`; `label` is for who does not see it."""
    button = ui.button(icon=icon).props(f'{props} aria-label="{label}"')
    if does is not None:
        on_single_click(button, does)
    return button


def draw_facts(rows: Iterable[tuple[str, str]]) -> None:
    """Draw `rows` of names and values, line by line."""
    with ui.element("dl").classes("rw-facts"):
        for name, value in rows:
            draw_text(name, "dt")
            draw_text(value, "dd")


def draw_table(heads: Sequence[str], rows: Sequence[Sequence[str]], marked: Sequence[bool] = ()) -> None:
    """Draw a few `rows` below `heads`; `marked`: which of them stand out. Wide ones scroll by themselves."""
    with ui.element("div").classes("rw-scroll"), ui.element("table").classes("rw-small-table"):
        with ui.element("thead"), ui.element("tr"):
            for head in heads:
                draw_text(head, "th", props="scope=col")
        with ui.element("tbody"):
            for at, row in enumerate(rows):
                with ui.element("tr").classes("rw-chosen" if at < len(marked) and marked[at] else ""):
                    for cell in row:
                        draw_text(cell, "td")


def draw_losing_rules(say: TextCatalog, lost: Sequence[Mapping[str, Any]]) -> None:
    """Draw the rules and signals that matched without deciding, each with its reason."""
    rows = []
    for entry in lost:
        places = {"winner": "", "value": "", "winner_value": ""} | dict(entry)
        key = f"frame.lost.{entry['why']}"
        rows.append((str(entry["rule"]), say(key, **places) if key in TEXTS else str(entry["why"])))
    if rows:
        draw_table([say("frame.lost"), say("frame.lost.why")], rows)


def draw_json(value: Any, tag: str, classes: str) -> None:
    """Draw `value` as indented JSON in an element of `tag`."""
    draw_text(format_json(value), tag, classes)


def draw_row_table(
    columns: list[dict[str, Any]], template: str, *, key: str = "id", **options: Any
) -> ui.table:
    """Draw an empty table whose rows, told apart by `key`, are drawn as the file `template` has it."""
    table = ui.table(columns=columns, rows=[], row_key=key, **options).classes("rw-table")
    table.add_slot("body", read_template(template))
    return table


def table_columns(say: TextCatalog, page: str, names: Iterable[str], right: Sequence[str] = ()) -> list[Any]:
    """Return the columns `names` with headings of `page`; those of `right` are aligned there."""
    return [
        {
            "name": name,
            "label": say(f"{page}.{name}"),
            "field": name,
            "align": "right" if name in right else "left",
        }
        for name in names
    ]


def to_json(value: Any) -> str:
    """Return `value` as JSON, which is JavaScript too."""
    return msgspec.json.encode(value).decode()


def format_json(value: Any) -> str:
    """Return `value` as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()


def format_time(seconds: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return the time `seconds` after the epoch in UTC, as `form` has it."""
    return f"{datetime.fromtimestamp(seconds, UTC):{form}} UTC"


def format_date(text: str) -> str:
    """Return the time `text`, as ISO 8601 has it, to the minute in UTC."""
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M} UTC"


async def ask_confirmation(
    visit: PageVisit, question: str, yes: str, *, note: str = "", dangerous: bool = False
) -> bool:
    """Ask `question`, with the button `yes`; return the visitor's choice."""
    if visit.is_asking:
        return False
    with visit.around, ui.dialog() as dialog, ui.card().classes("rw-ask").props("role=alertdialog"):
        ui.label(question)
        if note:
            ui.label(note).classes("rw-muted")
        with ui.element("div").classes("rw-row rw-end"):
            no = ui.button(visit.say("frame.cancel"), on_click=lambda: dialog.submit(False))
            no.props("flat autofocus")
            colour = "negative" if dangerous else "primary"
            ui.button(yes, on_click=lambda: dialog.submit(True), color=colour).props("unelevated")
    visit.question = dialog
    answer = await dialog
    if not dialog.is_deleted:  # with its page, which was left
        dialog.delete()
    return bool(answer)


def open_form(
    visit: PageVisit,
    title: str,
    yes: str,
    draw_fields: Callable[[], Mapping[str, FormField]],
    send: Callable[[Mapping[str, FormField]], Awaitable[None]],
) -> None:
    """Open a dialog with the fields that `draw_fields` draws, by name; the button `yes` calls `send`.

    It closes once `send` has returned; a refusal is shown at the field it names. A double click sends once.
    """
    if visit.is_asking:
        return
    with visit.around, ui.dialog() as dialog, ui.card().classes("rw-ask"):
        draw_text(title, "h2")
        fields = draw_fields()
        next(iter(fields.values())).props("autofocus")

        async def submit() -> None:
            if not button.enabled:
                return
            button.disable()
            for field in fields.values():
                field.error = None
            async with visit.catch_call_errors():
                try:
                    await send(fields)
                    dialog.close()
                except CallRefusedError as error:
                    at_fault = fields.get((error.field or "").partition(".")[0])
                    if at_fault is None:
                        raise
                    at_fault.error = str(error)
                finally:
                    button.set_enabled(bool(dialog.value))

        for field in fields.values():
            field.props("outlined dense").on("keydown.enter", submit)
        with ui.element("div").classes("rw-row rw-end"):
            ui.button(visit.say("frame.cancel"), on_click=dialog.close).props("flat")
            button = ui.button(yes, on_click=submit).props("unelevated")
    dialog.on("hide", dialog.delete)
    visit.question = dialog
    dialog.open()


def split_names(text: str | None) -> list[str]:
    """Return the names of `text`, in which commas part them."""
    return [name for part in (text or "").split(",") if (name := part.strip())]


async def ask_for_text(visit: PageVisit, title: str, text: str, *, short: bool = False) -> str:
    """Ask for a text under `title`, beginning with `text`; return it, nothing where the visitor cancels."""
    if visit.is_asking:
        return ""
    say = visit.say
    with visit.around, ui.dialog() as dialog, ui.element("div").classes("rw-card rw-question"):
        draw_text(say(title), "h2")
        field = ui.input(value=text) if short else ui.textarea(value=text).props("autogrow")
        field.props(f'outlined autofocus aria-label="{say(title)}"')
        if short:
            field.on("keydown.enter", lambda: dialog.submit(field.value))
        with ui.element("div").classes("rw-row"):
            ui.button(say("chat.ok"), on_click=lambda: dialog.submit(field.value)).props("unelevated")
            ui.button(say("frame.cancel"), on_click=dialog.close).props("flat")
    visit.question = dialog
    answer = await dialog
    dialog.delete()
    return answer if isinstance(answer, str) else ""


def notify_done(visit: PageVisit, text: str, undo: Callable[[], Awaitable[None]] | None = None) -> None:
    """Show `text`, that something was done; `undo` takes it back for as long as this is shown."""
    with visit.around, ui.element("div").classes("rw-said").props("role=status") as notice:
        ui.label(text)
        if undo is not None:
            take_back = undo

            async def take() -> None:
                with visit.around:
                    notice.delete()
                    async with visit.catch_call_errors():
                        await take_back()

            ui.button(visit.say("frame.undo"), on_click=take).props("flat dense")
        ui.timer(_SHOWN_S if undo is None else _UNDO_FOR_S, notice.delete, once=True)
