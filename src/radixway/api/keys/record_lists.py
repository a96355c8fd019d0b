"""Lists of keys, teams and users: searched, ordered and cut."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from radixway.api.keys.store.changes import PlainText
from radixway.api.keys.store.records import AccessRecord, RecordT

_MAX_LISTED = 1000


class ListQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Query of a list of records, which is ordered by id where no order is given."""

    q: Annotated[str, Meta(description="What names, owners or models contain.")] | None = None
    order: Literal["oldest", "newest"] | None = None
    limit: Annotated[int, Meta(ge=1, le=_MAX_LISTED)] | None = None
    offset: Annotated[int, Meta(ge=0)] = 0


class KeyQuery(ListQuery, kw_only=True, forbid_unknown_fields=True):
    """Query of the list of keys."""

    team: PlainText | None = None
    user: PlainText | None = None
    state: Annotated[str, Meta(description="active, blocked, expired.")] | None = None
    order: Literal["oldest", "newest"] | None = "oldest"
    limit: Annotated[int, Meta(ge=1, le=_MAX_LISTED)] | None = 100


def select_page(query: ListQuery, records: Iterable[RecordT]) -> tuple[list[RecordT], int]:
    """Return what `query` is to show of `records`, and how many it found."""
    wanted = (query.q or "").casefold()
    found = sorted(
        (record for record in records if wanted in _searched_text(record)),
        key=lambda record: (record.created_at if query.order else 0.0, record.id),
        reverse=query.order == "newest",
    )
    end = None if query.limit is None else query.offset + query.limit
    return found[query.offset : end], len(found)


def _searched_text(record: AccessRecord) -> str:
    own = (getattr(record, name, None) for name in ("alias", "shown", "team", "user", "email"))
    members = (member.user_id for member in getattr(record, "members", ()))
    return "\n".join((record.id, *filter(None, own), *members, *record.models)).casefold()
