"""Keys, teams and users as our own paths show them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any

import msgspec

from radixway.api.keys.store import KeyRecord, TeamRecord, UserRecord
from radixway.api.keys.store.records import AccessRecord

if TYPE_CHECKING:
    from radixway.api.keys.store.access_service import AccessService

_HIDDEN = ("digest", "old_digest", "created_at", "updated_at", "expires_at", "rotated_at", "old_until")


def iso_time(at: float | None) -> str | None:
    """Return `at`, seconds since the epoch, as ISO 8601 in UTC."""
    return None if at is None or at == inf else datetime.fromtimestamp(at, UTC).isoformat()


def key_state(key: KeyRecord, now: float) -> str:
    """Return `active`, `blocked` or `expired`."""
    if key.blocked:
        return "blocked"
    return "expired" if key.expires_at is not None and now >= key.expires_at else "active"


def describe_key(access: AccessService, key: KeyRecord, now: float) -> dict[str, Any]:
    """Describe `key` without its secret."""
    return _describe(access, key) | {
        "state": key_state(key, now),
        "expires": iso_time(key.expires_at),
        "rotated_at": iso_time(key.rotated_at),
        "old_key_until": iso_time(key.old_until),
    }


def describe_teams(access: AccessService, teams: Iterable[TeamRecord]) -> list[dict[str, Any]]:
    """Describe each of `teams`, and how many keys it has."""
    keys = Counter(key.team for key in access.directory.keys.values())
    return [_describe(access, team) | {"keys": keys[team.id]} for team in teams]


def describe_users(access: AccessService, users: Iterable[UserRecord]) -> list[dict[str, Any]]:
    """Describe each of `users`: the teams, and how many keys there are."""
    keys = Counter(key.user for key in access.directory.keys.values())
    teams = defaultdict(list)
    for team in access.directory.teams.values():
        for member in team.members:
            teams[member.user_id].append(team.id)
    return [
        _describe(access, user) | {"teams": teams.get(user.id, []), "keys": keys[user.id]} for user in users
    ]


def teams_of(access: AccessService, user_id: str) -> list[str]:
    """Return the ids of the teams that a user is a member of."""
    return [
        team.id
        for team in access.directory.teams.values()
        if any(member.user_id == user_id for member in team.members)
    ]


def describe_budget(access: AccessService, record: AccessRecord) -> dict[str, Any]:
    """Describe what `record` may spend, and has."""
    spent, total, resets_at = access.spending_of(record)
    state = "ok"
    if record.soft_budget is not None and spent >= record.soft_budget:
        state = "soft_limit_reached"
    if record.max_budget is not None and spent >= record.max_budget:
        state = "exceeded"
    return {
        "kind": record.kind,
        "id": record.id,
        "alias": record.alias,
        "max_budget": record.max_budget,
        "soft_budget": record.soft_budget,
        "budget_duration": record.budget_duration,
        "currency": access.directory.currency,
        "spend": round(spent, 9),
        "total_spend": round(total, 9),
        "budget_resets_at": iso_time(resets_at),
        "budget_state": state,
    }


def _describe(access: AccessService, record: AccessRecord) -> dict[str, Any]:
    fields = {
        name: msgspec.to_builtins(getattr(record, name))
        for name in record.__struct_fields__
        if name not in _HIDDEN
    }
    budget = describe_budget(access, record)
    del budget["kind"]
    times = {"created_at": iso_time(record.created_at), "updated_at": iso_time(record.updated_at)}
    return fields | budget | times
