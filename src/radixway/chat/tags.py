"""Tags: words by which users sort their chats."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, func, select

from radixway.chat.database import ChatDatabase
from radixway.chat.messages import own_chat
from radixway.chat.schema import chat_tags, chats


class ChatTags:
    """Whoever asks gives the user: what is another's is not found."""

    def __init__(self, database: ChatDatabase) -> None:
        self._database = database

    async def set_tags(self, user_id: str, chat_id: str, tags: Collection[str]) -> None:
        """A chat has these tags and no others. Raises NotFound."""
        async with self._database.write_transaction() as write:
            await own_chat(write, user_id, chat_id, lock=True)
            await write.execute(delete(chat_tags).where(chat_tags.c.chat_id == chat_id))
            rows = [{"chat_id": chat_id, "tag": tag} for tag in sorted(set(tags))]
            if rows:
                await write.execute(chat_tags.insert(), rows)

    async def tags_of_chats(self, chat_ids: Collection[str]) -> dict[str, list[str]]:
        """By chat, in alphabetical order."""
        wanted = select(chat_tags).where(chat_tags.c.chat_id.in_(chat_ids)).order_by(chat_tags.c.tag)
        found: dict[str, list[str]] = {chat_id: [] for chat_id in chat_ids}
        async with self._database.read_connection() as read:
            for chat_id, tag in await read.execute(wanted):
                found[chat_id].append(tag)
        return found

    async def count_tags(self, user_id: str) -> dict[str, int]:
        """How many chats of a user have each tag."""
        wanted = (
            select(chat_tags.c.tag, func.count().label("chats"))
            .join(chats)
            .where(chats.c.user_id == user_id)
            .group_by(chat_tags.c.tag)
            .order_by(chat_tags.c.tag)
        )
        async with self._database.read_connection() as read:
            return {row.tag: row.chats for row in await read.execute(wanted)}
