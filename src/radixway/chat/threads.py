"""Threads of chats: pure functions over branches, and a cache of threads that are used often.

The database says with each request what is still valid: a trigger raises a message's version with every
change, by any process. Of a cached chat only ids and versions are read, and the messages that are new or have
changed; so nothing stale is returned, without notifications of changes.
"""

import asyncio
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from sqlalchemy import Row, bindparam, select
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat import statements
from radixway.chat.database import ChatDatabase
from radixway.chat.records import Message
from radixway.chat.schema import messages


def build_thread(messages: Sequence[Message], tail: str) -> list[Message]:
    """Return the message `tail` and all above it, root first; empty where there is no such message."""
    by_id = {message.id: message for message in messages}
    found: list[Message] = []
    at = by_id.get(tail)
    while at is not None:
        found.append(at)
        at = None if at.parent_id is None else by_id.get(at.parent_id)
    return found[::-1]


def find_newest_tail(messages: Sequence[Message], below: str) -> str:
    """Return the end of the thread through `below` that follows the newest child at each fork."""
    children = _children_by_parent(messages)
    while below in children:
        below = children[below][-1].id
    return below


def find_siblings(messages: Sequence[Message]) -> dict[str, list[str]]:
    """Return for each message the ids of its siblings, its own included, in the order of creation."""
    return {
        message.id: [sibling.id for sibling in family]
        for family in _children_by_parent(messages).values()
        for message in family
    }


def _children_by_parent(messages: Sequence[Message]) -> dict[str | None, list[Message]]:
    found: dict[str | None, list[Message]] = {}
    for message in sorted(messages, key=lambda message: message.id):
        found.setdefault(message.parent_id, []).append(message)
    return found


SHORTEST = 12
"""Messages of a thread that is kept: shorter ones are read as fast as their versions."""
_MAX_CHANGED_MESSAGES = 100
"""More changed messages than these are read with the thread."""
_ROW_BYTES = 2000
"""Rough size of a message without its text."""

_VERSIONS = select(messages.c.id, messages.c.parent_id, messages.c.version).where(
    messages.c.chat_id == bindparam("chat")
)
_SOME = select(messages).where(messages.c.id.in_(bindparam("ids", expanding=True)))


@dataclass(slots=True)
class _CachedChat:
    used_at: float
    size_bytes: int = 0
    known: dict[str, Message] = field(default_factory=dict)


class ThreadCache:
    """An LRU cache of threads. Belongs to one event loop."""

    def __init__(
        self,
        database: ChatDatabase,
        *,
        max_bytes: int,
        kept_s: float = 1800.0,
        min_messages: int = SHORTEST,
        max_changed: int = _MAX_CHANGED_MESSAGES,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        """`kept_s`: after a chat was last requested. `min_messages`: of a cached thread. `max_changed`:
        more are read with the thread. `clock`: seconds that only go up."""
        self.outcomes: dict[str, int] = {}
        """Lookups: `hit`, `miss`, or `short`, of threads that are not cached."""
        self._database = database
        self._max_bytes = max_bytes
        self._kept_s, self._min_messages, self._max_changed = kept_s, min_messages, max_changed
        self._clock = clock
        self._chats: OrderedDict[str, _CachedChat] = OrderedDict()
        self._size_bytes = 0
        self._sweeping: asyncio.TimerHandle | None = None

    async def load_thread(self, chat_id: str, message_id: str) -> list[Message]:
        """Return `message_id` and all above it, root first; empty where there is no such message."""
        self._drop_old()
        chat = self._chats.get(chat_id)
        async with self._database.read_connection() as read:
            if chat is None:
                found = await read_thread(read, message_id)
                self._count_outcome("miss" if len(found) >= self._min_messages else "short")
            else:
                found = await self._refresh_thread(read, chat, chat_id, message_id)
        if len(found) >= self._min_messages:
            self._store_thread(chat_id, found)
        elif not found:
            self.drop_chats([chat_id])
        return found

    def drop_chats(self, chat_ids: Iterable[str]) -> None:
        """Remove `chat_ids` from the cache."""
        for chat_id in chat_ids:
            chat = self._chats.pop(chat_id, None)
            if chat is not None:
                self._size_bytes -= chat.size_bytes

    def check(self) -> None:
        """Recount. Raises AssertionError."""
        for chat in self._chats.values():
            assert chat.size_bytes == sum(map(_size_bytes, chat.known.values()))
        assert self._size_bytes == sum(chat.size_bytes for chat in self._chats.values()) <= self._max_bytes
        used = [chat.used_at for chat in self._chats.values()]
        assert used == sorted(used)

    async def _refresh_thread(
        self, read: AsyncConnection, chat: _CachedChat, chat_id: str, message_id: str
    ) -> list[Message]:
        """Read a thread from cache and database; `read` is one transaction."""
        versions = {row.id: row for row in await read.execute(_VERSIONS, {"chat": chat_id})}
        ids = _path_to_message(versions, message_id)
        known = dict(chat.known)  # another question may change it meanwhile
        missing = [key for key in ids if key not in known or known[key].version != versions[key].version]
        self._count_outcome("hit" if len(missing) < len(ids) else "miss")
        if len(missing) > self._max_changed:
            return await read_thread(read, message_id)
        fresh = await read.execute(_SOME, {"ids": missing}) if missing else ()
        known |= {row.id: Message.of_row(row) for row in fresh}
        return [known[key] for key in ids] if all(key in known for key in ids) else []

    def _count_outcome(self, outcome: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def _store_thread(self, chat_id: str, thread: list[Message]) -> None:
        self.drop_chats([chat_id])
        size_bytes = sum(map(_size_bytes, thread))
        if size_bytes > self._max_bytes:
            return
        by_id = {message.id: message for message in thread}
        self._chats[chat_id] = _CachedChat(self._clock(), size_bytes, by_id)
        self._size_bytes += size_bytes
        while self._size_bytes > self._max_bytes:
            self.drop_chats([next(iter(self._chats))])
        if self._sweeping is None:
            self._sweeping = asyncio.get_running_loop().call_later(self._kept_s, self._sweep)

    def _sweep(self) -> None:
        self._sweeping = None
        self._drop_old()
        if self._chats:
            self._sweeping = asyncio.get_running_loop().call_later(self._kept_s, self._sweep)

    def _drop_old(self) -> None:
        until = self._clock() - self._kept_s
        while self._chats and next(iter(self._chats.values())).used_at <= until:
            self.drop_chats([next(iter(self._chats))])


async def read_thread(read: AsyncConnection, message_id: str) -> list[Message]:
    """Return `message_id` and all above it, root first, from the database."""
    return [Message.of_row(row) for row in await read.execute(statements.THREAD, {"message": message_id})]


def _path_to_message(rows: dict[str, Row[Any, Any, Any]], message_id: str | None) -> list[str]:
    ids: list[str] = []
    while message_id is not None and message_id in rows:
        ids.append(message_id)
        message_id = rows[message_id].parent_id
    return ids[::-1]


def _size_bytes(message: Message) -> int:
    return _ROW_BYTES + sys.getsizeof(message.content or "") + sys.getsizeof(message.safe_content or "")
