"""The fields of LiteLLM's calls, and its answers (`litellm/proxy/_types.py` of LiteLLM has the originals)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from starlette.requests import Request

from radixway.api.client_requests import decode_body
from radixway.api.keys.descriptions import iso_time, key_state, teams_of
from radixway.api.keys.store import KeyRecord, RecordNotFoundError, TeamRecord, UserRecord
from radixway.api.keys.store.records import AccessRecord
from radixway.core.http import HttpError
from radixway.core.http.request_body import field_error
from radixway.core.pipeline import BadRequest

if TYPE_CHECKING:
    from radixway.api.keys.store.access_service import AccessService

ChangesT = TypeVar("ChangesT", bound=msgspec.Struct)

_SAME = (
    *("models", "max_budget", "soft_budget", "budget_duration", "rpm_limit", "tpm_limit"),
    *("max_parallel_requests", "metadata", "blocked", "spend"),
)
KEY_FIELDS = dict.fromkeys(_SAME) | {
    "key": None,
    "duration": None,
    "key_alias": "alias",
    "team_id": "team",
    "user_id": "user",
    "allowed_routes": "endpoints",
    "expires": None,
    "scopes": None,
}
"""Fields of a key, and what we call them where that is something else."""
TEAM_FIELDS = dict.fromkeys(_SAME) | {"team_id": "id", "team_alias": "alias", "members_with_roles": "members"}
USER_FIELDS = dict.fromkeys(_SAME) | {
    "user_id": "id",
    "user_alias": "alias",
    "user_email": "email",
    "user_role": "role",
}
_LABELS = ("tags",)
"""Kept in the metadata."""
_WITHOUT_EFFECT = {"send_invite_email": False, "key_type": ("default", "llm_api"), "config": {}}
"""Fields that change nothing here, as long as they ask for nothing else."""


async def read_fields(request: Request) -> dict[str, Any]:
    """Return the JSON object that a call brings. Raises BadBodyError."""
    return await decode_body(request, dict[str, Any], b"{}")


def take_fields(given: Mapping[str, Any], names: Mapping[str, str | None]) -> dict[str, Any]:
    """Return `given` under our names. Raises BadRequest naming a field that we could not hold to.

    Fields that ask for nothing (null, empty) are left out, whatever they are called.
    """
    taken: dict[str, Any] = {}
    labels: dict[str, Any] = {}
    for name, value in given.items():
        if name in names:
            taken[names[name] or name] = value
        elif name in _LABELS and value:
            labels[name] = value
        elif value not in (None, "", [], {}, False) and value not in _without_effect(name):
            raise BadRequest(f"{name}: this gateway does not have this setting", param=name)
    if labels:
        metadata = taken.get("metadata") or {}
        if not isinstance(metadata, dict):
            raise BadRequest("metadata: an object is needed", param="metadata")
        taken["metadata"] = metadata | labels
    return taken


@contextmanager
def litellm_names(names: Mapping[str, str | None]) -> Iterator[None]:
    """Let errors that are raised within name fields as LiteLLM calls them."""
    try:
        yield
    except HttpError as error:
        theirs = next((name for name, ours in names.items() if ours and ours == error.param), None)
        if theirs is not None:
            text = str(error)
            if text.startswith(f"{error.param}:"):
                error.args = (f"{theirs}{text.removeprefix(error.param or '')}",)
            error.param = theirs
        raise


def read_changes(given: Mapping[str, Any], names: Mapping[str, str | None], into: type[ChangesT]) -> ChangesT:
    """Convert what is `given` under LiteLLM's names. Raises as `take_fields`, and BadBodyError."""
    try:
        return msgspec.convert(take_fields(given, names), into)
    except msgspec.ValidationError as error:
        raise field_error(str(error)) from None


def key_info(access: AccessService, key: KeyRecord, now: float) -> dict[str, Any]:
    """Describe `key` as `/key/info` does."""
    return _common_info(access, key) | {
        "token": key.id,
        "key_name": key.shown,
        "key_alias": key.alias,
        "expires": iso_time(key.expires_at),
        "user_id": key.user,
        "team_id": key.team,
        "allowed_routes": key.endpoints,
        "status": {"blocked": "revoked"}.get(state := key_state(key, now), state),
        "aliases": {},
        "config": {},
        "permissions": {},
        "model_max_budget": {},
    }


def new_key_info(access: AccessService, key: KeyRecord, text: str, now: float) -> dict[str, Any]:
    """Describe `key` as `/key/generate` does; `text` is the key itself."""
    return key_info(access, key, now) | {"key": text, "token_id": key.id}


def team_info(access: AccessService, team: TeamRecord) -> dict[str, Any]:
    """Describe `team` as LiteLLM's table of teams does."""
    members = [msgspec.to_builtins(member) for member in team.members]
    return _common_info(access, team) | {
        "team_id": team.id,
        "team_alias": team.alias,
        "members_with_roles": members,
        "members": [member["user_id"] for member in members],
        "admins": [member["user_id"] for member in members if member["role"] == "admin"],
    }


def user_info(access: AccessService, user: UserRecord) -> dict[str, Any]:
    """Describe `user` as LiteLLM's table of users does."""
    return _common_info(access, user) | {
        "user_id": user.id,
        "user_alias": user.alias,
        "user_email": user.email,
        "user_role": user.role,
        "teams": teams_of(access, user.id),
    }


def require_key(access: AccessService, given: Any, param: str = "key") -> KeyRecord:
    """Return the key that `given`, the field `param`, names. Raises BadRequest, RecordNotFoundError."""
    if not isinstance(given, str) or not given:
        raise BadRequest(f"{param}: give a key or its token", param=param)
    key = access.find_key(given)
    if key is None:
        raise RecordNotFoundError("there is no such key", param=param)
    return key


def _common_info(access: AccessService, record: AccessRecord) -> dict[str, Any]:
    spent, _, resets_at = access.spending_of(record)
    same = {name: getattr(record, name) for name in _SAME if name != "spend"}
    return same | {
        "spend": round(spent, 9),
        "budget_reset_at": iso_time(resets_at),
        "created_at": iso_time(record.created_at),
        "updated_at": iso_time(record.updated_at),
    }


def _without_effect(name: str) -> tuple[Any, ...]:
    allowed = _WITHOUT_EFFECT.get(name, ())
    return allowed if isinstance(allowed, tuple) else (allowed,)
