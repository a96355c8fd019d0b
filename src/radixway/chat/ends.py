"""What else is written in the transaction that ends an answer: whoever has to know of every end, and of none
that did not happen, is told in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Row, func
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.records import MessageState
from radixway.chat.schema import messages

_COLUMNS = (
    *("id", "chat_id", "parent_id", "state", "model", "usage", "finish_reason", "error"),
    *("worker_id", "created_at", "first_token_at", "work_end_at"),
)


@dataclass(frozen=True, slots=True)
class EndedAnswer:
    """An answer as its end left it, without its words."""

    id: str
    chat_id: str
    parent_id: str | None
    state: MessageState
    model: str | None
    usage: dict[str, Any] | None
    finish_reason: str | None
    error: str | None
    worker_id: str | None
    """Of one that fetched it."""
    created_at: float
    first_token_at: float | None
    work_end_at: float
    characters: int
    """Of its words."""


Told = Callable[[AsyncConnection, EndedAnswer], Awaitable[None]]


class Ends:
    """Those who are told."""

    COLUMNS = (
        *(messages.c[name] for name in _COLUMNS),
        func.coalesce(func.length(messages.c.content), 0).label("characters"),
    )
    """For `RETURNING` of the statement that ends an answer."""

    def __init__(self) -> None:
        self.told: list[Told] = []

    async def tell(self, write: AsyncConnection, row: Row[Any]) -> None:
        """An answer ends with this transaction. `row`: `COLUMNS`."""
        if not self.told:
            return
        fields = dict(row._mapping)
        ended = EndedAnswer(**fields | {"state": MessageState(fields["state"])})
        for told in self.told:
            await told(write, ended)
