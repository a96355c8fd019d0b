"""A row in every table that has an owner, with words of its own in every column that takes words."""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, Boolean, Column, Double, ForeignKey, Integer, Table, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.database import ChatDatabase
from radixway.chat.privacy.row_owners import OWNERS
from radixway.chat.schema import metadata

_FIXED = {"role": "assistant", "state": "complete", "finish_reason": "stop"}


def word(user: str, table: Table, column: Column[Any]) -> str:
    """What stands there of that user, and nowhere else."""
    return f"{user} has {table.name}.{column.name} of {user}"


async def plant(database: ChatDatabase, user: str) -> None:
    """Of a user who has something of everything; their tenant is their word of it."""
    ids: dict[Table, Any] = {}
    async with database.write_transaction() as write:
        for table in OWNERS:
            row = {column.name: _value(user, table, column, ids) for column in table.columns}
            row = {name: value for name, value in row.items() if name not in _left_out(table)}
            made = await write.execute(insert(table).values(**row).returning(*table.primary_key))
            ids[table] = made.one()[0]


def _left_out(table: Table) -> set[str]:
    """Numbers that count up by themselves."""
    return {column.name for column in table.primary_key if isinstance(column.type, Integer)}


def _value(user: str, table: Table, column: Column[Any], ids: dict[Table, Any]) -> Any:
    keys: set[ForeignKey] = column.foreign_keys
    if keys:
        return ids.get(next(iter(keys)).column.table)
    if column is OWNERS[table].column and OWNERS[table].of is not None:
        return ids[OWNERS[table].of]
    if (column.name in ("user_id", "id") and table.name == "users") or column.name == "user_id":
        return user
    if column.name in _FIXED:
        return _FIXED[column.name]
    if isinstance(column.type, JSON):
        return {"said": word(user, table, column)}
    if isinstance(column.type, Boolean):
        return False
    if isinstance(column.type, Integer | Double):
        return 1
    return word(user, table, column)


async def everything(read: AsyncConnection) -> dict[str, list[str]]:
    """The rows of all tables, as text."""
    found = {}
    for table in metadata.sorted_tables:
        found[table.name] = [str(tuple(row)) for row in await read.execute(select(table))]
    return found
