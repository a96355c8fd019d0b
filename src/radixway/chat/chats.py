"""Chats as their users see them in a list: created, named, tagged, hidden, deleted."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, select, update

from radixway.chat import statements
from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.ids import new_id
from radixway.chat.messages import detach_messages, own_chat
from radixway.chat.records import Chat
from radixway.chat.schema import chat_tags, chats
from radixway.chat.webhooks import WebhookEvent, WebhookOutbox


class ChatTags:
    """The tags of a user's chats. Chats of other users are not found."""

    def __init__(self, database: ChatDatabase) -> None:
        self._database = database

    async def set_tags(self, user_id: str, chat_id: str, tags: Collection[str]) -> None:
        """Replace the tags of `chat_id` by `tags`. Raises ChatNotFoundError."""
        async with self._database.write_transaction() as write:
            await own_chat(write, user_id, chat_id, lock=True)
            await write.execute(delete(chat_tags).where(chat_tags.c.chat_id == chat_id))
            rows = [{"chat_id": chat_id, "tag": tag} for tag in sorted(set(tags))]
            if rows:
                await write.execute(chat_tags.insert(), rows)

    async def tags_of_chats(self, chat_ids: Collection[str]) -> dict[str, list[str]]:
        """Return the tags of each of `chat_ids`, sorted."""
        wanted = select(chat_tags).where(chat_tags.c.chat_id.in_(chat_ids)).order_by(chat_tags.c.tag)
        found: dict[str, list[str]] = {chat_id: [] for chat_id in chat_ids}
        for chat_id, tag in await self._database.fetch_all(wanted):
            found[chat_id].append(tag)
        return found

    async def count_tags(self, user_id: str) -> dict[str, int]:
        """Return the number of chats of `user_id` by tag."""
        wanted = (
            select(chat_tags.c.tag, func.count().label("chats"))
            .join(chats)
            .where(chats.c.user_id == user_id)
            .group_by(chat_tags.c.tag)
            .order_by(chat_tags.c.tag)
        )
        return {row.tag: row.chats for row in await self._database.fetch_all(wanted)}


@dataclass(frozen=True, slots=True)
class ChatListPage:
    """A page of chats, newest first, and the next cursor or None."""

    chats: list[Chat]
    next: str | None
    """The last one here, if older ones follow."""
    prev: str | None
    """The first one here, if newer ones come before."""


class ChatStore:
    """The chats of all users. Chats of another user than the given one are not found."""

    def __init__(
        self, database: ChatDatabase, clock: Callable[[], float], outbox: WebhookOutbox | None = None
    ) -> None:
        """`clock`: seconds since 1970. `outbox`: for events of chats."""
        self._database = database
        self._clock = clock
        self._outbox = outbox or WebhookOutbox(database, clock)

    async def create_chat(self, user_id: str) -> Chat:
        """Create a chat of `user_id`, without a title."""
        now = self._clock()
        row = {"id": new_id(), "user_id": user_id, "created_at": now, "modified_at": now}
        async with self._database.write_transaction() as write:
            made = await write.execute(statements.INSERT_CHAT, row)
            chat = Chat(**made.one()._mapping)
            await self._outbox.put(write, user_id, WebhookEvent("chat.created", chat.id))
            return chat

    async def find_chat(self, user_id: str, chat_id: str) -> Chat:
        """Return `chat_id`. Raises ChatNotFoundError."""
        async with self._database.read_connection() as read:
            return await own_chat(read, user_id, chat_id)

    async def list_chats(
        self,
        user_id: str,
        *,
        limit: int = 10,
        after: str | None = None,
        before: str | None = None,
        hidden: bool = False,
        archived: bool | None = None,
        tag: str | None = None,
    ) -> ChatListPage:
        """Return at most `limit` chats older than `after`, or newer than `before`, or the newest.

        `hidden`: include hidden ones. `archived`: only those that are, or are not. `tag`: only those with it.
        """
        wanted = select(chats).where(chats.c.user_id == user_id)
        if archived is not None:
            wanted = wanted.where(chats.c.archived.is_(archived))
        if tag is not None:
            wanted = wanted.join(chat_tags).where(chat_tags.c.tag == tag)
        if not hidden:
            wanted = wanted.where(chats.c.hidden.is_(False))
        if before is not None:
            wanted = wanted.where(chats.c.id > before).order_by(chats.c.id)
        else:
            wanted = wanted.order_by(chats.c.id.desc())
            if after is not None:
                wanted = wanted.where(chats.c.id < after)
        found = [Chat(**row._mapping) for row in await self._database.fetch_all(wanted.limit(limit + 1))]
        more, found = len(found) > limit, found[:limit]
        if before is not None:
            found.reverse()
        older = before is not None or more
        newer = after is not None or (before is not None and more)
        return ChatListPage(
            found, found[-1].id if found and older else None, found[0].id if found and newer else None
        )

    async def update_chat(self, user_id: str, chat_id: str, **fields: Any) -> None:
        """Change `fields`: `title`, `hidden`, `archived`, `allow_data_use`. Raises ChatNotFoundError."""
        if not fields:
            await self.find_chat(user_id, chat_id)
            return
        if "title" in fields:
            fields["titled_by"] = "user"
        changed = update(chats).where(chats.c.id == chat_id, chats.c.user_id == user_id)
        async with self._database.write_transaction() as write:
            if (await write.execute(changed.values(**fields, modified_at=self._clock()))).rowcount == 0:
                raise ChatNotFoundError("Chat not found")
            if "title" in fields:
                await self._outbox.put(write, user_id, WebhookEvent("chat.titled", chat_id))

    async def hide_all_chats(self, user_id: str) -> None:
        """Hide every chat of `user_id` from lists."""
        await self._database.execute(update(chats).where(chats.c.user_id == user_id).values(hidden=True))

    async def delete_chat(self, user_id: str, chat_id: str) -> None:
        """Delete `chat_id` with everything that belongs to it. Raises ChatNotFoundError."""
        async with self._database.write_transaction() as write:
            own = chats.c.id == chat_id, chats.c.user_id == user_id
            await detach_messages(write, select(chats.c.id).where(*own))
            gone = delete(chats).where(*own)
            if (await write.execute(gone)).rowcount == 0:
                raise ChatNotFoundError("Chat not found")
            await self._outbox.put(write, user_id, WebhookEvent("chat.deleted", chat_id))
