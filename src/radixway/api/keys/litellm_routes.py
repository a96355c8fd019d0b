"""LiteLLM's paths for keys, users, teams and spending, for clients and scripts written for its proxy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from fastapi import APIRouter, Depends, Request

from radixway.api.admin_access import AdminAccess
from radixway.api.keys import litellm_shapes as shapes
from radixway.api.keys.litellm_spend import add_spend_paths
from radixway.api.keys.store import (
    KeyChanges,
    KeyRecord,
    RecordNotFoundError,
    TeamChanges,
    TeamRecord,
    UserChanges,
    UserRecord,
)
from radixway.api.keys.store.changes import OwnerChanges
from radixway.api.keys.store.records import RecordT
from radixway.core.http import LazyRouter, Scope
from radixway.core.pipeline import BadRequest
from radixway.core.tenants import KnownKey

if TYPE_CHECKING:
    from radixway.api.keys.store.access_service import AccessService

_MAX_PAGE = 100


def litellm_routes(
    access: AccessService, admin: AdminAccess, known_key_of: Callable[[Scope], KnownKey | None]
) -> tuple[APIRouter, APIRouter]:
    """Build the paths that keys may call, and those of administrators.

    `known_key_of`: the key that a call is made with, which may ask about itself.
    """
    router = LazyRouter(tags=["LiteLLM's"])
    administered = LazyRouter(tags=["LiteLLM's"], dependencies=[Depends(admin)])

    @router.get("/key/info")
    async def key_info(request: Request, key: str | None = None) -> dict[str, Any]:
        """Show a key, by default the one that asks."""
        own = known_key_of(request.scope)
        own_id = None if own is None or own.access is None else own.access.id
        found = access.find_key(own_id or "" if key is None else key)
        if found is None or found.id != own_id:
            admin(request)
        if found is None:
            raise RecordNotFoundError("there is no such key", param="key")
        return {"key": key or found.id, "info": shapes.key_info(access, found, time())}

    _add_key_paths(administered, access)
    _add_user_paths(administered, access)
    _add_team_paths(administered, access)
    _add_owner_paths(administered, access, UserRecord, UserChanges, shapes.USER_FIELDS, shapes.user_info)
    _add_owner_paths(administered, access, TeamRecord, TeamChanges, shapes.TEAM_FIELDS, shapes.team_info)
    add_spend_paths(administered, access)
    return router, administered


def _add_key_paths(router: APIRouter, access: AccessService) -> None:
    @router.post("/key/generate")
    async def generate_key(request: Request) -> dict[str, Any]:
        """Create a key."""
        given = await shapes.read_fields(request)
        with shapes.litellm_names(shapes.KEY_FIELDS):
            changes = shapes.read_changes(given, shapes.KEY_FIELDS, KeyChanges)
            key, text = await access.create_key(changes)
        return shapes.new_key_info(access, key, text, time())

    @router.post("/key/update")
    async def update_key(request: Request) -> dict[str, Any]:
        """Change a key, named by `key`: itself, or its `token`."""
        given = await shapes.read_fields(request)
        key = shapes.require_key(access, given.pop("key", None))
        with shapes.litellm_names(shapes.KEY_FIELDS):
            changes = shapes.read_changes(given, shapes.KEY_FIELDS, KeyChanges)
            changed = await access.update_record(KeyRecord, key.id, changes)
        return {"key": changed.id} | shapes.key_info(access, changed, time())

    async def regenerate(request: Request, key: str | None) -> dict[str, Any]:
        given = await shapes.read_fields(request)
        named = given.pop("key", None)
        found = shapes.require_key(access, key or named)
        grace = given.pop("grace_period", None)
        if grace is not None and not isinstance(grace, str):
            raise BadRequest("grace_period: a duration like 24h", param="grace_period")
        if given.get("new_key") is not None:
            given["key"] = given.pop("new_key")
        with shapes.litellm_names(shapes.KEY_FIELDS | {"grace_period": "grace"}):
            changes = shapes.read_changes(given, shapes.KEY_FIELDS, KeyChanges)
            changed, text = await access.rotate_key(found.id, grace, changes)
        return shapes.new_key_info(access, changed, text, time())

    @router.post("/key/regenerate")
    async def regenerate_key(request: Request) -> dict[str, Any]:
        """Replace a key's text; the old one works for `grace_period` more."""
        return await regenerate(request, None)

    @router.post("/key/{key}/regenerate")
    async def regenerate_named_key(key: str, request: Request) -> dict[str, Any]:
        """Replace a key's text; the old one works for `grace_period` more."""
        return await regenerate(request, key)

    @router.post("/key/delete")
    async def delete_keys(request: Request) -> dict[str, Any]:
        """Delete keys: `keys`, themselves or their tokens, and those of `key_aliases`."""
        given = await shapes.read_fields(request)
        keys, aliases = _texts(given, "keys"), _texts(given, "key_aliases")
        if not keys and not aliases:
            raise BadRequest("give keys or key_aliases", param="keys")
        found = [shapes.require_key(access, key, "keys").id for key in keys]
        for alias in aliases:
            named = [key.id for key in access.directory.keys.values() if key.alias == alias]
            if not named:
                raise RecordNotFoundError(f"there is no key {alias[:80]!r}", param="key_aliases")
            found += named
        await access.delete_records(KeyRecord, found)
        return {"deleted_keys": [*keys, *aliases]}

    async def set_blocked(request: Request, *, blocked: bool) -> dict[str, Any]:
        given = await shapes.read_fields(request)
        key = shapes.require_key(access, given.get("key"))
        changed = await access.update_record(KeyRecord, key.id, KeyChanges(blocked=blocked))
        return shapes.key_info(access, changed, time())

    @router.post("/key/block")
    async def block_key(request: Request) -> dict[str, Any]:
        """Refuse a key until it is unblocked."""
        return await set_blocked(request, blocked=True)

    @router.post("/key/unblock")
    async def unblock_key(request: Request) -> dict[str, Any]:
        """Let a blocked key in again."""
        return await set_blocked(request, blocked=False)

    @router.get("/key/list")
    async def list_keys(
        page: int = 1,
        size: int = 10,
        user_id: str | None = None,
        team_id: str | None = None,
        key_alias: str | None = None,
        key_hash: str | None = None,
        *,
        return_full_object: bool = False,
    ) -> dict[str, Any]:
        """List keys, a page at a time."""
        wanted = {"user": user_id, "team": team_id, "alias": key_alias, "id": key_hash}
        asked = {name: value for name, value in wanted.items() if value}
        keys = sorted(access.directory.keys.values(), key=lambda key: (-key.created_at, key.id))
        found = [key for key in keys if all(getattr(key, name) == value for name, value in asked.items())]
        shown, pages = _page(found, page, size)
        listed: list[Any] = [key.id for key in shown]
        if return_full_object:
            listed = [shapes.key_info(access, key, time()) for key in shown]
        return {"keys": listed, "total_count": len(found), "current_page": page, "total_pages": pages}


def _add_user_paths(router: APIRouter, access: AccessService) -> None:
    @router.post("/user/new")
    async def create_user(request: Request) -> dict[str, Any]:
        """Create a user, and a key of the user's unless `auto_create_key` is false."""
        given = await shapes.read_fields(request)
        makes_key = given.pop("auto_create_key", True)
        if not isinstance(makes_key, bool):
            raise BadRequest("auto_create_key: true or false", param="auto_create_key")
        teams = given.pop("teams", None) or []
        if not isinstance(teams, list):
            raise BadRequest("teams: a list is needed", param="teams")
        teams = [_team_of(team) for team in teams]
        own: dict[str, Any] = {
            name: given.pop(name) for name in ("key_alias", "duration", "team_id") if name in given
        }
        users, keys = shapes.USER_FIELDS, shapes.KEY_FIELDS
        with shapes.litellm_names(keys | users if "key_alias" in own else users | keys):
            changes = shapes.read_changes(given, shapes.USER_FIELDS, UserChanges)
            key_changes = shapes.read_changes(own, shapes.KEY_FIELDS, KeyChanges)
            user, made = await access.create_user(changes, teams, key_changes if makes_key else None)
        key = {"key": None} if made is None else shapes.new_key_info(access, *made, time())
        return key | shapes.user_info(access, user)

    @router.get("/user/info")
    async def user_info(user_id: str) -> dict[str, Any]:
        """Show a user, the user's keys and teams."""
        user = access.directory.require_record(UserRecord, user_id, "user_id")
        keys = [key for key in access.directory.keys.values() if key.user == user_id]
        return {
            "user_id": user_id,
            "user_info": shapes.user_info(access, user),
            "keys": [shapes.key_info(access, key, time()) for key in keys],
            "teams": [
                shapes.team_info(access, team)
                for team in access.directory.teams.values()
                if any(member.user_id == user_id for member in team.members)
            ],
        }

    @router.get("/v2/user/info")
    async def user_alone(user_id: str) -> dict[str, Any]:
        """Show a user alone."""
        return shapes.user_info(access, access.directory.require_record(UserRecord, user_id, "user_id"))

    @router.get("/user/list")
    async def list_users(page: int = 1, page_size: int = 25) -> dict[str, Any]:
        """List users, a page at a time."""
        users = sorted(access.directory.users.values(), key=lambda user: (-user.created_at, user.id))
        shown, pages = _page(users, page, page_size)
        return {
            "users": [shapes.user_info(access, user) for user in shown],
            "total": len(users),
            "page": page,
            "page_size": page_size,
            "total_pages": pages,
        }


def _add_team_paths(router: APIRouter, access: AccessService) -> None:
    @router.post("/team/new")
    async def create_team(request: Request) -> dict[str, Any]:
        """Create a team, which is a tenant by its `team_id`."""
        given = await shapes.read_fields(request)
        given.setdefault("team_id", None)
        given["team_id"] = given["team_id"] or str(uuid4())
        with shapes.litellm_names(shapes.TEAM_FIELDS):
            changes = shapes.read_changes(given, shapes.TEAM_FIELDS, TeamChanges)
            team = await access.create_owner(TeamRecord, changes)
        return shapes.team_info(access, team)

    @router.get("/team/info")
    async def team_info(team_id: str) -> dict[str, Any]:
        """Show a team and its keys."""
        team = access.directory.require_record(TeamRecord, team_id, "team_id")
        keys = [key for key in access.directory.keys.values() if key.team == team_id]
        return {
            "team_id": team_id,
            "team_info": shapes.team_info(access, team),
            "keys": [shapes.key_info(access, key, time()) for key in keys],
            "team_memberships": [],
        }

    @router.get("/team/list")
    async def list_teams(user_id: str | None = None) -> list[dict[str, Any]]:
        """List the teams, of a user where one is given."""
        return [
            shapes.team_info(access, team)
            for team in sorted(access.directory.teams.values(), key=lambda team: team.id)
            if user_id is None or any(member.user_id == user_id for member in team.members)
        ]

    async def set_blocked(request: Request, *, blocked: bool) -> dict[str, Any]:
        given = await shapes.read_fields(request)
        changes = TeamChanges(blocked=blocked)
        team = await access.update_record(TeamRecord, _text(given, "team_id"), changes)
        return shapes.team_info(access, team)

    @router.post("/team/block")
    async def block_team(request: Request) -> dict[str, Any]:
        """Refuse all keys of a team until it is unblocked."""
        return await set_blocked(request, blocked=True)

    @router.post("/team/unblock")
    async def unblock_team(request: Request) -> dict[str, Any]:
        """Let the keys of a blocked team in again."""
        return await set_blocked(request, blocked=False)

    @router.post("/team/member_add")
    async def add_member(request: Request) -> dict[str, Any]:
        """Add a `member`, or a list of them, to a team."""
        given = await shapes.read_fields(request)
        team_id, member = _text(given, "team_id"), given.get("member")
        given["member"] = member if isinstance(member, list) else [member]
        changes = shapes.read_changes(given, {"team_id": "id", "member": "members"}, TeamChanges)
        assert isinstance(changes.members, list)
        team = await access.change_members(team_id, changes.members)
        return shapes.team_info(access, team) | {"updated_users": [], "updated_team_memberships": []}

    @router.post("/team/member_delete")
    async def delete_member(request: Request) -> dict[str, Any]:
        """Remove a member from a team."""
        given = await shapes.read_fields(request)
        team = await access.change_members(_text(given, "team_id"), (), [_text(given, "user_id")])
        return shapes.team_info(access, team)


def _add_owner_paths(
    router: APIRouter,
    access: AccessService,
    kind: type[RecordT],
    changes: type[OwnerChanges],
    fields: Mapping[str, str | None],
    info: Callable[[AccessService, RecordT], dict[str, Any]],
) -> None:
    """Add what teams and users have in common."""
    name, id_field = kind.kind, f"{kind.kind}_id"

    @router.post(f"/{name}/update", name=f"update_{name}")
    async def update_owner(request: Request) -> dict[str, Any]:
        """Change what is given."""
        given = await shapes.read_fields(request)
        owner = access.directory.require_record(kind, _text(given, id_field), id_field)
        with shapes.litellm_names(fields):
            changed = await access.update_record(kind, owner.id, shapes.read_changes(given, fields, changes))
        return {id_field: changed.id, "data": info(access, changed)}

    @router.post(f"/{name}/delete", name=f"delete_{name}s")
    async def delete_owners(request: Request) -> dict[str, Any]:
        """Delete them and their keys."""
        ids = _texts(await shapes.read_fields(request), f"{name}_ids", required=True)
        keys = await access.delete_records(kind, ids)
        return {f"deleted_{name}s": ids, "deleted_keys": [key.id for key in keys]}


def _text(given: dict[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"{name}: a text is needed", param=name)
    return value


def _texts(given: dict[str, Any], name: str, *, required: bool = False) -> list[str]:
    values = given.get(name) or []
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise BadRequest(f"{name}: a list of texts is needed", param=name)
    if required and not values:
        raise BadRequest(f"{name}: at least one is needed", param=name)
    return values


def _team_of(given: Any) -> str:
    """Return the id of a team as `/user/new` takes it: a text, or an object with `team_id`."""
    return _text(given if isinstance(given, dict) else {"team_id": given}, "team_id")


def _page(found: Sequence[Any], page: int, size: int) -> tuple[Sequence[Any], int]:
    """Return the page of that number, the first is 1, and how many there are. Raises BadRequest."""
    for name, value in (("page", page), ("size", size)):
        if value < 1:
            raise BadRequest(f"{name}: at least 1", param=name)
    size = min(size, _MAX_PAGE)
    return found[(page - 1) * size : page * size], -(-len(found) // size)
