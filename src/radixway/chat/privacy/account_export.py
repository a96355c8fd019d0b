"""Everything that is known of a user, as JSON lines: a line for each row of a table that has an owner.

{"format": "radixway account", "version": 1, "user_id": …, "times": "seconds since 1970, UTC", "at": …}
{"table": "users", "row": {"id": …, "display_name": …}}
{"table": "chats", "row": {"id": …, "title": …}}
"""

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
from sqlalchemy import Table, select, tuple_

from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.privacy.row_owners import OWNERS, is_owned_by
from radixway.chat.schema import users

_PAGE = 100
_SECRETS = ("_hash", "secret")
"""Suffixes of columns that hold or prove credentials, which no export contains."""


class AccountExport:
    """Exports accounts of a database."""

    def __init__(self, database: ChatDatabase, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._database = database
        self._clock = clock

    async def export_user(self, user_id: str) -> AsyncIterator[bytes]:
        """Yield everything stored about `user_id`, some lines at a time, each part as it is when requested.
        Raises ChatNotFoundError at once.
        """
        known = await self._database.fetch_first(select(users.c.id).where(users.c.id == user_id))
        if known is None:
            raise ChatNotFoundError("User not found")
        return self._iter_lines(user_id)

    async def _iter_lines(self, user_id: str) -> AsyncIterator[bytes]:
        about = {"format": "radixway account", "version": 1, "user_id": user_id}
        yield _encode_line(about | {"times": "seconds since 1970, UTC", "at": self._clock()})
        for table in OWNERS:
            async for page in self._iter_pages(table, user_id):
                yield page

    async def _iter_pages(self, table: Table, user_id: str) -> AsyncIterator[bytes]:
        """Yield pages by primary key; nothing stays open between two of them."""
        key = tuple(table.primary_key)
        exported = [str(column.name) for column in table.columns if not column.name.endswith(_SECRETS)]
        wanted = select(table).where(is_owned_by(table, [user_id])).order_by(*key).limit(_PAGE)
        after: tuple[Any, ...] | None = None
        while True:
            page = wanted if after is None else wanted.where(tuple_(*key) > after)
            rows = [row._mapping for row in await self._database.fetch_all(page)]
            if rows:
                lines = ({"table": str(table.name), "row": {n: row[n] for n in exported}} for row in rows)
                yield b"".join(map(_encode_line, lines))
            if len(rows) < _PAGE:
                return
            after = tuple(rows[-1][column.name] for column in key)


def _encode_line(fields: dict[str, Any]) -> bytes:
    return msgspec.json.encode(fields) + b"\n"
