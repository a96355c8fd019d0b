"""The tables of keys, teams and users, with what each may spend and has spent."""

from nicegui import events, ui

from radixway.console.components import draw_empty, draw_page_title, draw_row_table, draw_text, table_columns
from radixway.console.gateway_calls import CallRefusedError
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.pages.keys.actions import RecordActions
from radixway.console.pages.keys.kinds import KINDS, Record, RecordKind, record_cells

_SHOWN = 500
_REFRESH_S = 5.0


async def build_keys_page(visit: PageVisit) -> None:
    """Build the table of keys, teams or users for `visit`, as the address says, with a search."""
    say = visit.say
    kind = next(kind for kind in KINDS if visit.request.url.path.endswith(kind.path))
    title, search_label = say(f"{kind.name}.title"), say(f"{kind.name}.search")
    with draw_page_title(title):
        search = ui.input(placeholder=search_label).props("outlined dense clearable data-search debounce=300")
        search.props(f'aria-label="{search_label}" type=search').classes("rw-search")
        create = ui.button(say(f"{kind.name}.create"), icon="add").props("unelevated")
    _draw_tabs(visit, kind)
    ui.label(say(f"{kind.name}.hint")).classes("rw-muted")
    records: dict[str, Record] = {}
    table = draw_row_table(
        table_columns(say, "keys", kind.columns), "key_row.html", pagination={"rowsPerPage": 50}
    )
    table.classes("rw-single rw-keys-table").props(
        f'flat dense aria-label="{title}" no-data-label="{say(f"{kind.name}.none")}"'
    )
    more = ui.label().classes("rw-muted rw-small").props("role=status")

    async def refresh() -> None:
        wanted = search.value or None
        found = await visit.gateway.get_json(kind.path, q=wanted, order="newest", limit=_SHOWN)
        if wanted != (search.value or None):  # another search has begun
            return
        records.clear()
        records.update({record["id"]: record for record in found[kind.name]})
        rows = [record_cells(say, kind, record) for record in records.values()]
        if rows != table.rows:
            table.rows = rows
        is_cut = found["total"] > len(rows)
        more.set_text(say("keys.shown", count=len(rows), total=f"{found['total']:,}") if is_cut else "")

    async def refresh_now() -> None:
        async with visit.catch_call_errors():
            await refresh()

    actions = RecordActions(visit, kind, refresh)

    async def act(event: events.GenericEventArguments) -> None:
        name, record_id = event.args
        if record_id in records:
            await actions.run_action(name, records[record_id])

    search.on_value_change(refresh_now)
    create.on_click(actions.open_create_dialog)
    table.on("act", act)
    try:
        await refresh()
    except CallRefusedError as error:
        if error.status != 404:
            raise
        for element in (search, create, table):
            element.delete()
        with ui.element("div").classes("rw-card"):
            draw_empty(say("keys.off", why=str(error)))
        return
    visit.refresh_every(_REFRESH_S, refresh)


def _draw_tabs(visit: PageVisit, current: RecordKind) -> None:
    """Draw links to the page's tables."""
    with ui.element("nav").classes("rw-nav rw-tabs").props(f'aria-label="{visit.say("keys.kinds")}"'):
        for kind in KINDS:
            marked = " aria-current=true" if kind is current else ""
            draw_text(visit.say(f"{kind.name}.title"), "a", props=f'href="{visit.link(kind.path)}"{marked}')


PAGE = ConsolePage(
    name="keys", path="/keys", icon="key", key="k", build=build_keys_page, also=("/teams", "/users")
)
