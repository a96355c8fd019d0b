"""The owner of each table's rows, from which export and erasure follow.

A table of the schema stands in `OWNERS` or in `NOBODYS`; a test compares both with the database.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Column, ColumnElement, Table, select

from radixway.chat.schema import (
    api_keys,
    budgets,
    chat_tags,
    chats,
    conversations,
    deliveries,
    evaluations,
    jobs,
    messages,
    question_items,
    rates,
    refresh_tokens,
    reports,
    responses,
    shares,
    title_jobs,
    unscrubbed,
    used_logins,
    users,
    webhooks,
    worker_sessions,
    workers,
)


@dataclass(frozen=True, slots=True)
class OwnerColumn:
    """The column that leads to a user: it holds their id, or that of a row `of` another table."""

    column: Column[Any]
    of: Table | None = None


OWNERS: dict[Table, OwnerColumn] = {
    users: OwnerColumn(users.c.id),
    rates: OwnerColumn(rates.c.user_id),
    budgets: OwnerColumn(budgets.c.user_id),
    refresh_tokens: OwnerColumn(refresh_tokens.c.user_id),
    api_keys: OwnerColumn(api_keys.c.user_id),
    webhooks: OwnerColumn(webhooks.c.user_id),
    deliveries: OwnerColumn(deliveries.c.user_id),
    chats: OwnerColumn(chats.c.user_id),
    chat_tags: OwnerColumn(chat_tags.c.chat_id, chats),
    title_jobs: OwnerColumn(title_jobs.c.chat_id, chats),
    conversations: OwnerColumn(conversations.c.chat_id, chats),
    messages: OwnerColumn(messages.c.chat_id, chats),
    question_items: OwnerColumn(question_items.c.message_id, messages),
    responses: OwnerColumn(responses.c.message_id, messages),
    shares: OwnerColumn(shares.c.chat_id, chats),
    jobs: OwnerColumn(jobs.c.user_id),
    reports: OwnerColumn(reports.c.message_id, messages),
    evaluations: OwnerColumn(evaluations.c.selected_message_id, messages),
}
"""Whatever leads to a table, or refers to it, stands below it."""

NOBODYS = frozenset({workers, worker_sessions, unscrubbed, used_logins})

OF_SEARCH = frozenset({"search_rows", "message_search"})
"""SQLite's index of words: triggers empty it with `messages`, `FileScrubber` cleans what FTS5 leaves."""


def is_owned_by(table: Table, user_ids: Collection[str]) -> ColumnElement[bool]:
    """Return the condition for rows of `table` that belong to `user_ids`."""
    by = OWNERS[table]
    if by.of is None:
        return by.column.in_(user_ids)
    return by.column.in_(select(by.of.c.id).where(is_owned_by(by.of, user_ids)))
