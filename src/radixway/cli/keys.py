"""`radixway keys`, `teams`, `users` and `budget`: who may ask a running gateway, and for how much."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any
from urllib.parse import quote, urlencode

import typer
from typer import Argument, Option

from radixway.cli.options import GATEWAY, AdminKey, GatewayUrl, drop_unset
from radixway.cli.terminal import exit_with_error, format_json, out, run_call
from radixway.core.config.tenants import format_cost

keys_app = typer.Typer(help="Keys of a running gateway, made without a restart.", no_args_is_help=True)
teams_app = typer.Typer(help="Teams of a running gateway: tenants with budgets.", no_args_is_help=True)
users_app = typer.Typer(help="Users of a running gateway.", no_args_is_help=True)
budget_app = typer.Typer(help="Budgets of keys, users and teams.", no_args_is_help=True)

AsJson = Annotated[bool, Option("--json", help="Print the answer as it came.")]
Alias = Annotated[str | None, Option(help="A name for people.")]
Models = Annotated[
    list[str] | None, Option("--model", help="A model it may use, or a pattern; repeatable.", metavar="NAME")
]
MaxBudget = Annotated[float | None, Option(help="Most that it may spend in a period.", min=0, max=1e12)]
SoftBudget = Annotated[float | None, Option(help="Spending at which an alert is sent.", min=0, max=1e12)]
Period = Annotated[
    str | None,
    Option("--budget-duration", help="When spending restarts at zero: 30d.", metavar="12h|30d|1mo"),
]
Rpm = Annotated[int | None, Option("--rpm", help="Requests a minute.", min=1)]
Tpm = Annotated[int | None, Option("--tpm", help="Tokens a minute.", min=1)]
Parallel = Annotated[int | None, Option("--parallel", help="Requests at a time.", min=1)]
Id = Annotated[str, Argument(help="Its id.", metavar="ID")]


def _call(url: str, method: str, path: str, key: str | None, body: dict[str, Any] | None = None) -> Any:
    from radixway.core.http.gateway_client import call_gateway

    return run_call(call_gateway(url, method, path, dict, body, key=key))


def _path(kind: str, id: str, action: str = "") -> str:
    return f"/{kind}/{quote(id, safe='')}{action}"


def _print(answer: Any, *, as_json: bool, text: str) -> None:
    out.print(format_json(answer) if as_json else text)


@keys_app.command("create")
def create_key(
    team: Annotated[str | None, Option(help="Its team, or a tenant of the configuration.")] = None,
    user: Annotated[str | None, Option(help="Its user.")] = None,
    alias: Alias = None,
    models: Models = None,
    endpoint: Annotated[
        list[str] | None, Option(help="A path it may call (/v1/*); repeatable.", metavar="PATH")
    ] = None,
    scope: Annotated[
        list[str] | None, Option(help="user, trusted, admin, worker or metrics; repeatable.")
    ] = None,
    duration: Annotated[str | None, Option(help="How long it works.", metavar="30d")] = None,
    max_budget: MaxBudget = None,
    soft_budget: SoftBudget = None,
    budget_duration: Period = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    parallel: Parallel = None,
    url: GatewayUrl = GATEWAY,
    key: AdminKey = None,
    as_json: AsJson = False,
) -> None:
    """Create a key, and print it: this once."""
    limits = _limits(alias, models, max_budget, soft_budget, budget_duration, rpm, tpm, parallel)
    own = drop_unset(
        team=team, user=user, endpoints=endpoint or None, scopes=scope or None, duration=duration
    )
    answer = _call(url, "POST", "/keys", key, own | limits)
    _print(answer, as_json=as_json, text=f"{answer['key']}\nid {answer['id']}; the key is not shown again")


@keys_app.command("list")
def list_keys(
    team: Annotated[str | None, Option(help="Only this team's.")] = None,
    user: Annotated[str | None, Option(help="Only this user's.")] = None,
    state: Annotated[str | None, Option(help="Only these.", metavar="active|blocked|expired")] = None,
    url: GatewayUrl = GATEWAY,
    key: AdminKey = None,
    as_json: AsJson = False,
) -> None:
    """Show keys, what they spent and may spend."""
    from radixway.core.telemetry.terminal import FittedTable, TableColumn

    answer = _call(url, "GET", "/keys?" + urlencode(_query(team=team, user=user, state=state)), key)
    if as_json:
        out.print(format_json(answer))
        return
    table = FittedTable(
        TableColumn("id", is_id=True),
        TableColumn("alias"),
        TableColumn("key", is_id=True, drop_order=4),
        TableColumn("team"),
        TableColumn("user", drop_order=2),
        TableColumn("state"),
        TableColumn("spent", is_number=True),
        TableColumn("budget", is_number=True),
        TableColumn("expires", drop_order=3),
    )
    for each in answer["keys"]:
        table.add_row(
            each["id"],
            each["alias"] or "–",
            each["shown"],
            each["team"] or "–",
            each["user"] or "–",
            each["state"],
            format_cost(each["spend"]),
            _amount(each["max_budget"]),
            _day(each["expires"]),
        )
    table.print_to(out)
    if answer["total"] > len(answer["keys"]):
        out.print(
            f"the first {len(answer['keys'])} of {answer['total']}: choose with --team, --user, --state"
        )


@keys_app.command("show")
def show_key(id: Id, url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Show all of a key but the key itself."""
    out.print(format_json(_call(url, "GET", _path("keys", id), key)))


@keys_app.command("rotate")
def rotate_key(
    id: Id,
    grace: Annotated[str | None, Option(help="How long the old one works on.", metavar="24h")] = None,
    url: GatewayUrl = GATEWAY,
    key: AdminKey = None,
    as_json: AsJson = False,
) -> None:
    """Replace a key, and print the new one: this once."""
    answer = _call(url, "POST", _path("keys", id, "/rotate"), key, drop_unset(grace=grace))
    _print(answer, as_json=as_json, text=f"{answer['key']}\nid {answer['id']}; the key is not shown again")


@keys_app.command("block")
def block_key(id: Id, url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Refuse a key until it is unblocked."""
    _call(url, "POST", _path("keys", id, "/block"), key)
    out.print(f"blocked {id}")


@keys_app.command("unblock")
def unblock_key(id: Id, url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Let a blocked key in again."""
    _call(url, "POST", _path("keys", id, "/unblock"), key)
    out.print(f"unblocked {id}")


@keys_app.command("delete")
def delete_key(id: Id, url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """End a key for good, at every gateway with the same store."""
    _call(url, "DELETE", _path("keys", id), key)
    out.print(f"deleted {id}")


@teams_app.command("create")
def create_team(
    name: Annotated[str, Argument(help="Its id, which is its name as a tenant.", metavar="NAME")],
    alias: Alias = None,
    models: Models = None,
    max_budget: MaxBudget = None,
    soft_budget: SoftBudget = None,
    budget_duration: Period = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    parallel: Parallel = None,
    url: GatewayUrl = GATEWAY,
    key: AdminKey = None,
    as_json: AsJson = False,
) -> None:
    """Create a team."""
    limits = _limits(alias, models, max_budget, soft_budget, budget_duration, rpm, tpm, parallel)
    answer = _call(url, "POST", "/teams", key, {"id": name, **limits})
    _print(answer, as_json=as_json, text=f"created the team {answer['id']}")


@users_app.command("create")
def create_user(
    name: Annotated[str, Argument(help="The user's id.", metavar="NAME")],
    email: Annotated[str | None, Option(help="A label.")] = None,
    alias: Alias = None,
    models: Models = None,
    max_budget: MaxBudget = None,
    soft_budget: SoftBudget = None,
    budget_duration: Period = None,
    rpm: Rpm = None,
    tpm: Tpm = None,
    parallel: Parallel = None,
    url: GatewayUrl = GATEWAY,
    key: AdminKey = None,
    as_json: AsJson = False,
) -> None:
    """Create a user, whose keys share a budget."""
    limits = _limits(alias, models, max_budget, soft_budget, budget_duration, rpm, tpm, parallel)
    answer = _call(url, "POST", "/users", key, {"id": name, **drop_unset(email=email), **limits})
    _print(answer, as_json=as_json, text=f"created the user {answer['id']}")


@teams_app.command("list")
def list_teams(url: GatewayUrl = GATEWAY, key: AdminKey = None, as_json: AsJson = False) -> None:
    """Show teams, what they spent and may spend."""
    _list_owners("teams", url, key, as_json=as_json)


@users_app.command("list")
def list_users(url: GatewayUrl = GATEWAY, key: AdminKey = None, as_json: AsJson = False) -> None:
    """Show users, what they spent and may spend."""
    _list_owners("users", url, key, as_json=as_json)


@teams_app.command("delete")
def delete_team(id: Id, url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Delete a team and its keys."""
    answer = _call(url, "DELETE", _path("teams", id), key)
    out.print(f"deleted {id} and {len(answer['deleted_keys'])} keys")


@users_app.command("delete")
def delete_user(id: Id, url: GatewayUrl = GATEWAY, key: AdminKey = None) -> None:
    """Delete a user and the user's keys."""
    answer = _call(url, "DELETE", _path("users", id), key)
    out.print(f"deleted {id} and {len(answer['deleted_keys'])} keys")


@budget_app.command("list")
def list_budgets(url: GatewayUrl = GATEWAY, key: AdminKey = None, as_json: AsJson = False) -> None:
    """Show every budget, and what of it is spent."""
    from radixway.core.telemetry.terminal import FittedTable, TableColumn

    answer = _call(url, "GET", "/budgets", key)
    if as_json:
        out.print(format_json(answer))
        return
    table = FittedTable(
        TableColumn("of"),
        TableColumn("id", is_id=True),
        TableColumn("alias", drop_order=1),
        TableColumn("spent", is_number=True),
        TableColumn("soft", is_number=True),
        TableColumn("budget", is_number=True),
        TableColumn("", drop_order=3),
        TableColumn("state"),
        TableColumn("resets", drop_order=2),
    )
    for each in answer["budgets"]:
        table.add_row(
            each["kind"],
            each["id"],
            each["alias"] or "–",
            format_cost(each["spend"]),
            _amount(each["soft_budget"]),
            _amount(each["max_budget"]),
            each["currency"],
            each["budget_state"].replace("_", " "),
            _day(each["budget_resets_at"]),
        )
    table.print_to(out)


@budget_app.command("set")
def set_budget(
    kind: Annotated[str, Argument(help="key, user or team.", metavar="key|user|team")],
    id: Id,
    max_budget: MaxBudget = None,
    soft_budget: SoftBudget = None,
    budget_duration: Period = None,
    spend: Annotated[
        float | None, Option(help="What counts as spent; 0 begins anew.", min=0, max=1e12)
    ] = None,
    url: GatewayUrl = GATEWAY,
    key: AdminKey = None,
    as_json: AsJson = False,
) -> None:
    """Change the budget of a key, user or team."""
    if kind not in ("key", "user", "team"):
        exit_with_error(f"key, user or team, not {kind!r}")
    body = drop_unset(
        max_budget=max_budget, soft_budget=soft_budget, budget_duration=budget_duration, spend=spend
    )
    if not body:
        exit_with_error("give --max-budget, --soft-budget, --budget-duration or --spend")
    answer = _call(url, "PATCH", _path(f"{kind}s", id), key, body)
    spent, allowed = format_cost(answer["spend"]), _amount(answer["max_budget"])
    _print(answer, as_json=as_json, text=f"{kind} {id}: {spent} of {allowed} {answer['currency']}")


def _list_owners(kind: str, url: str, key: str | None, *, as_json: bool) -> None:
    from radixway.core.telemetry.terminal import FittedTable, TableColumn

    answer = _call(url, "GET", f"/{kind}", key)
    if as_json:
        out.print(format_json(answer))
        return
    table = FittedTable(
        TableColumn("id", is_id=True),
        TableColumn("alias", drop_order=1),
        TableColumn("keys", is_number=True),
        TableColumn("spent", is_number=True),
        TableColumn("budget", is_number=True),
        TableColumn("resets", drop_order=2),
    )
    for each in answer[kind]:
        table.add_row(
            each["id"],
            each["alias"] or "–",
            str(each["keys"]),
            format_cost(each["spend"]),
            _amount(each["max_budget"]),
            _day(each["budget_resets_at"]),
        )
    table.print_to(out)


def _limits(
    alias: str | None,
    models: list[str] | None,
    max_budget: float | None,
    soft_budget: float | None,
    budget_duration: str | None,
    rpm: int | None,
    tpm: int | None,
    parallel: int | None,
) -> dict[str, Any]:
    return drop_unset(
        alias=alias,
        models=models or None,
        max_budget=max_budget,
        soft_budget=soft_budget,
        budget_duration=budget_duration,
        rpm_limit=rpm,
        tpm_limit=tpm,
        max_parallel_requests=parallel,
    )


def _query(**values: str | None) -> dict[str, str]:
    return {"limit": "1000"} | {name: value for name, value in values.items() if value}


def _amount(value: float | None) -> str:
    return "–" if value is None else format_cost(value)


def _day(at: str | None) -> str:
    return "–" if at is None else f"{datetime.fromisoformat(at):%Y-%m-%d %H:%M}"
