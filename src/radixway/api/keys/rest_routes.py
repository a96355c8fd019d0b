"""`/keys`, `/teams`, `/users`, `/budgets` and `/spend`: what administrators change at run time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, timedelta
from time import time
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from msgspec import Meta

from radixway.api.admin_access import AdminAccess
from radixway.api.client_requests import decode_body
from radixway.api.keys.descriptions import (
    describe_budget,
    describe_key,
    describe_teams,
    describe_users,
    key_state,
)
from radixway.api.keys.record_lists import KeyQuery, ListQuery, select_page
from radixway.api.keys.store import (
    KeyChanges,
    KeyRecord,
    RecordNotFoundError,
    TeamChanges,
    TeamMember,
    TeamRecord,
    UserChanges,
    UserRecord,
)
from radixway.api.keys.store.changes import OwnerChanges, PlainText
from radixway.api.keys.store.records import AccessRecord, RecordT
from radixway.api.openapi import query_parameters, request_body
from radixway.core.http import LazyRouter
from radixway.core.http.request_body import decode_query
from radixway.core.pipeline import BadRequest, GatewayError

if TYPE_CHECKING:
    from radixway.api.keys.store.access_service import AccessService

_Day = Annotated[str, Meta(pattern=r"^\d{4}-\d{2}-\d{2}$", description="A day, UTC: 2026-11-30.")]
_ROOTS = ("/keys", "/teams", "/users", "/budgets", "/spend", "/key", "/team", "/user", "/global/spend")
_METHODS = ["GET", "POST", "PATCH", "DELETE"]
_USUAL_DAYS = 30
_FIRST_DAY = date(1970, 1, 1)


class KeysOffError(GatewayError):
    """There is no store of keys."""

    status = 404
    code = "keys_off"

    def __init__(self) -> None:
        super().__init__(
            "keys are not kept here: set gateway.admin_key, without which nobody could call this gateway as "
            "an administrator once there is a key, or keys.enabled: true"
        )


class _SpendQuery(msgspec.Struct, forbid_unknown_fields=True, rename={"first": "from", "last": "to"}):
    by: Annotated[str, Meta(description="day, key, user, team, model; with commas.")] = "team,model"
    first: _Day | None = None
    last: _Day | None = None
    key: PlainText | None = None
    user: PlainText | None = None
    team: PlainText | None = None
    model: PlainText | None = None


class _Rotation(msgspec.Struct, forbid_unknown_fields=True):
    grace: str | None = None
    """How long the old key works on, as `24h`; none: not at all."""


class _Members(msgspec.Struct, forbid_unknown_fields=True):
    add: list[TeamMember] = []
    remove: list[str] = []


SPEND_COLUMNS = {"day": "day", "key": "key_id", "user": "user_id", "team": "team_id", "model": "model"}


def keys_off_routes(admin: AdminAccess) -> APIRouter:
    """Build what tells administrators that there is no store, under all paths of keys, LiteLLM's too."""
    router = LazyRouter()

    async def refuse(request: Request) -> Response:
        admin(request)
        raise KeysOffError

    for root in _ROOTS:
        for path in (root, root + "/{rest:path}"):
            router.add_route(path, refuse, methods=_METHODS, include_in_schema=False)
    return router


def key_routes(access: AccessService, admin: AdminAccess) -> APIRouter:
    """Build the paths for administrators."""
    router = LazyRouter(tags=["keys"], dependencies=[Depends(admin)])
    _add_key_paths(router, access)
    _add_owner_paths(router, access, TeamRecord, TeamChanges, describe_teams)
    _add_owner_paths(router, access, UserRecord, UserChanges, describe_users)

    @router.post("/teams/{team}/members", openapi_extra=request_body(_Members))
    async def change_members(team: str, request: Request) -> dict[str, Any]:
        """Add and remove members, who are labels: keys decide who may ask."""
        body = await decode_body(request, _Members)
        return describe_teams(access, [await access.change_members(team, body.add, body.remove)])[0]

    _add_spend_paths(router, access)
    return router


def _add_key_paths(router: APIRouter, access: AccessService) -> None:
    @router.get("/keys", openapi_extra=query_parameters(KeyQuery))
    async def list_keys(request: Request) -> dict[str, Any]:
        """List keys, the oldest first, of a `team` or `user`, in a `state`: active, blocked, expired."""
        now = time()
        query = decode_query(dict(request.query_params), KeyQuery)
        wanted = {name: value for name in ("team", "user") if (value := getattr(query, name)) is not None}
        keys = [
            key
            for key in access.directory.keys.values()
            if all(getattr(key, name) == value for name, value in wanted.items())
            and (query.state is None or query.state == key_state(key, now))
        ]
        found, total = select_page(query, keys)
        return {"keys": [describe_key(access, key, now) for key in found], "total": total}

    @router.post("/keys", status_code=201, openapi_extra=request_body(KeyChanges))
    async def create_key(request: Request) -> JSONResponse:
        """Create a key. `key` in the answer is the key itself, which is shown this once."""
        key, text = await access.create_key(await decode_body(request, KeyChanges, b"{}"))
        return JSONResponse({"key": text} | describe_key(access, key, time()), 201)

    @router.get("/keys/{key}")
    async def show_key(key: str) -> dict[str, Any]:
        """Show a key by its id."""
        return describe_key(access, _find_key(access, key), time())

    @router.patch("/keys/{key}", openapi_extra=request_body(KeyChanges))
    async def update_key(key: str, request: Request) -> dict[str, Any]:
        """Change what is given; null takes a limit away."""
        changes = await decode_body(request, KeyChanges)
        changed = await access.update_record(KeyRecord, _find_key(access, key).id, changes)
        return describe_key(access, changed, time())

    @router.delete("/keys/{key}")
    async def delete_key(key: str) -> dict[str, Any]:
        """Delete a key; at other gateways it ends within `keys.sync_s`."""
        await access.delete_records(KeyRecord, [_find_key(access, key).id])
        return {"deleted": key}

    @router.post("/keys/{key}/rotate", openapi_extra=request_body(_Rotation))
    async def rotate_key(key: str, request: Request) -> dict[str, Any]:
        """Replace a key's text; `key` in the answer is the new one, shown this once."""
        grace = (await decode_body(request, _Rotation, b"{}")).grace
        changed, text = await access.rotate_key(_find_key(access, key).id, grace, KeyChanges())
        return {"key": text} | describe_key(access, changed, time())

    async def set_blocked(key: str, *, blocked: bool) -> dict[str, Any]:
        changes = KeyChanges(blocked=blocked)
        changed = await access.update_record(KeyRecord, _find_key(access, key).id, changes)
        return describe_key(access, changed, time())

    @router.post("/keys/{key}/block")
    async def block_key(key: str) -> dict[str, Any]:
        """Refuse a key until it is unblocked."""
        return await set_blocked(key, blocked=True)

    @router.post("/keys/{key}/unblock")
    async def unblock_key(key: str) -> dict[str, Any]:
        """Let a blocked key in again."""
        return await set_blocked(key, blocked=False)


def _add_owner_paths(
    router: APIRouter,
    access: AccessService,
    kind: type[RecordT],
    changes: type[OwnerChanges],
    describe: Callable[[AccessService, Iterable[RecordT]], list[dict[str, Any]]],
) -> None:
    """Add the paths of teams or of users, whose budget all of their keys share."""
    name = kind.kind
    path, one = f"/{name}s", f"/{name}s/{{id}}"

    @router.get(path, name=f"list_{name}s", openapi_extra=query_parameters(ListQuery))
    async def list_owners(request: Request) -> dict[str, Any]:
        """List them, by id. Tenants of the configuration are not among the teams."""
        query = decode_query(dict(request.query_params), ListQuery)
        found, total = select_page(query, access.directory.list_records(kind))
        return {f"{name}s": describe(access, found), "total": total}

    @router.post(path, name=f"create_{name}", status_code=201, openapi_extra=request_body(changes))
    async def create_owner(request: Request) -> JSONResponse:
        """Create one. A team is a tenant by its `id`: given, or else the `alias` where that may be one."""
        owner = await access.create_owner(kind, await decode_body(request, changes, b"{}"))
        return JSONResponse(describe(access, [owner])[0], 201)

    @router.get(one, name=f"show_{name}")
    async def show_owner(id: str) -> dict[str, Any]:
        """Show one."""
        return describe(access, [access.directory.require_record(kind, id)])[0]

    @router.patch(one, name=f"update_{name}", openapi_extra=request_body(changes))
    async def update_owner(id: str, request: Request) -> dict[str, Any]:
        """Change what is given; null takes a limit away."""
        given = await decode_body(request, changes)
        return describe(access, [await access.update_record(kind, id, given)])[0]

    @router.delete(one, name=f"delete_{name}")
    async def delete_owner(id: str) -> dict[str, Any]:
        """Delete it and its keys."""
        gone = await access.delete_records(kind, [id])
        return {"deleted": id, "deleted_keys": [key.id for key in gone]}


def _add_spend_paths(router: APIRouter, access: AccessService) -> None:
    @router.get("/budgets")
    async def list_budgets() -> dict[str, Any]:
        """List every key, user and team that has a budget, and what of it is spent."""
        found: list[AccessRecord] = [
            record
            for records in access.directory.records.values()
            for record in records.values()
            if record.max_budget is not None or record.soft_budget is not None
        ]
        return {"budgets": [describe_budget(access, record) for record in found], "total": len(found)}

    @router.get("/spend", openapi_extra=query_parameters(_SpendQuery))
    async def spend(request: Request) -> dict[str, Any]:
        """Sum requests, tokens and costs of the store's keys, the last 30 days by default."""
        query = decode_query(dict(request.query_params), _SpendQuery)
        by = list(dict.fromkeys(name.strip() for name in query.by.split(",")))
        if wrong := [name for name in by if name not in SPEND_COLUMNS]:
            raise BadRequest(f"by: {', '.join(SPEND_COLUMNS)}, not {wrong[0][:40]!r}", param="by")
        first, last = day_span(query.first, query.last)
        wanted = {
            column: value
            for name, column in SPEND_COLUMNS.items()
            if name != "day" and (value := getattr(query, name)) is not None
        }
        await access.sync()
        rows = await access.store.sum_usage([SPEND_COLUMNS[name] for name in by], first, last, wanted)
        names = {column: name for name, column in SPEND_COLUMNS.items()}
        shown = [{names.get(column, column): value for column, value in row.items()} for row in rows]
        return {"from": first, "to": last, "by": by, "spend": shown}


def day_span(first: str | None, last: str | None, names: tuple[str, str] = ("from", "to")) -> tuple[str, str]:
    """Return the days from `first` to `last`, by default the last 30.

    Raises BadRequest naming one of `names`.
    """
    until = _parse_day(last, names[1]) if last else datetime.now(UTC).date()
    since = _parse_day(first, names[0]) if first else until - timedelta(days=_USUAL_DAYS - 1)
    if since > until:
        raise BadRequest(f"{names[0]}: is later than {names[1]}", param=names[0])
    return since.isoformat(), until.isoformat()


def _parse_day(text: str, name: str) -> date:
    """Return the day of `text`, which may have a time too. Raises BadRequest naming `name`."""
    try:
        day = datetime.fromisoformat(text).date()
    except ValueError:
        day = date.min
    if day < _FIRST_DAY:
        raise BadRequest(f"{name}: a day like 2026-11-30, not {text[:40]!r}", param=name)
    return day


def _find_key(access: AccessService, given: str) -> KeyRecord:
    key = access.find_key(given)
    if key is None:
        raise RecordNotFoundError("there is no such key", param="key")
    return key
