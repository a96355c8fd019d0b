"""The table of keys, with what each may spend and has spent."""

from collections.abc import Mapping
from typing import Any

from nicegui import events, ui

from radixway.console.components import draw_empty, draw_page_title, draw_row_table, table_columns
from radixway.console.gateway_calls import CallRefusedError
from radixway.console.page import ConsolePage, PageVisit
from radixway.console.pages.keys.actions import KeyActions
from radixway.console.texts import TextCatalog
from radixway.core.config.tenants import format_cost

_COLUMNS = ("alias", "state", "team", "scope", "budget", "rates", "expires", "actions")
_STATE_MOODS = {"active": "good", "blocked": "bad", "expired": "warn"}
_BUDGET_MOODS = {"ok": "", "soft_limit_reached": "warn", "exceeded": "bad"}
_KEYS = 1000
_REFRESH_S = 5.0


async def build_keys_page(visit: PageVisit) -> None:
    """Build the table of all keys for `visit`, searched by alias, team, user or model."""
    say = visit.say
    with draw_page_title(say("keys.title")):
        search = ui.input(placeholder=say("keys.search")).props("outlined dense clearable data-search")
        search.props(f'aria-label="{say("keys.search")}" type=search').classes("rw-search")
        create = ui.button(say("keys.create"), icon="add").props("unelevated")
    ui.label(say("keys.hint")).classes("rw-muted")
    try:
        data = await visit.gateway.get_json("/keys", limit=_KEYS)
    except CallRefusedError as error:
        if error.status != 404:
            raise
        search.delete()
        create.delete()
        with ui.element("div").classes("rw-card"):
            draw_empty(say("keys.off", why=str(error)))
        return
    keys: dict[str, Mapping[str, Any]] = {}
    table = draw_row_table(
        table_columns(say, "keys", _COLUMNS), "key_row.html", pagination={"rowsPerPage": 50}
    )
    table.classes("rw-single rw-keys-table").props(
        f'flat dense aria-label="{say("keys.title")}" no-data-label="{say("keys.none")}"'
    )

    def show() -> None:
        wanted = (search.value or "").lower()
        rows = [key_cells(say, key) for key in reversed(keys.values())]
        rows = [row for row in rows if wanted in row["found_by"]]
        if rows != table.rows:
            table.rows = rows

    async def refresh() -> None:
        fresh = await visit.gateway.get_json("/keys", limit=_KEYS)
        keys.clear()
        keys.update({key["id"]: key for key in fresh["keys"]})
        show()

    actions = KeyActions(visit, refresh)

    async def act(event: events.GenericEventArguments) -> None:
        name, key_id = event.args
        if key_id in keys:
            await actions.run_action(name, keys[key_id])

    keys.update({key["id"]: key for key in data["keys"]})
    show()
    search.on_value_change(show)
    create.on_click(actions.open_create_dialog)
    table.on("act", act)
    visit.refresh_every(_REFRESH_S, refresh)


def key_cells(say: TextCatalog, key: Mapping[str, Any]) -> dict[str, Any]:
    """Return `key`, as `/keys` has it, as the cells of `key_row.html`."""
    budget, duration, currency = key["max_budget"], key["budget_duration"], key["currency"]
    spent = f"{format_cost(key['spend'])} {currency}"
    if budget is not None:
        spent = say("keys.spent_of", spent=format_cost(key["spend"]), budget=f"{budget:g}", currency=currency)
    models, endpoints = key["models"], key["endpoints"]
    scope = [", ".join(models) or say("keys.all_models")]
    scope += [", ".join(endpoints)] if endpoints else []
    scope += [", ".join(key["scopes"])] if key["scopes"] != ["user"] else []
    rates = [
        say(f"keys.{name}.of", count=f"{key[name]:,}")
        for name in ("rpm_limit", "tpm_limit", "max_parallel_requests")
        if key[name] is not None
    ]
    owner = [name for name in (key["team"], key["user"]) if name]
    alias = key["alias"] or key["id"]
    return {
        "id": key["id"],
        "alias": alias,
        "shown": key["shown"],
        "state": key["state"],
        "state_said": say(f"keys.state.{key['state']}"),
        "looks": _STATE_MOODS[key["state"]],
        "owner": " / ".join(owner) or "–",
        "scope": " · ".join(scope),
        "spent": spent,
        "share": min(key["spend"] / budget, 1.0) if budget else None,
        "meter": _BUDGET_MOODS[key["budget_state"]],
        "period": say("keys.every", duration=duration) if duration else "",
        "rates": " · ".join(rates) or "–",
        "expires": (key["expires"] or "")[:16].replace("T", " ") or say("keys.never"),
        "does": [
            (name, say(f"keys.{name}"))
            for name in ("edit", "rotate", "unblock" if key["blocked"] else "block", "delete")
        ],
        "found_by": " ".join((alias, key["id"], key["shown"], *owner, *models)).lower(),
    }


PAGE = ConsolePage(name="keys", path="/keys", icon="key", key="k", build=build_keys_page)
