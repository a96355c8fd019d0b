"""Conversations: chats with labels, to which items are added with responses and without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.database import Database
from radixway.chat.errors import NotFound
from radixway.chat.messages import Messages, untie
from radixway.chat.records import Chat
from radixway.chat.responses import Items, find_conversation, new_chat
from radixway.chat.schema import chats, conversations, question_items

Labels = dict[str, str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """A chat with its labels."""

    chat: Chat
    labels: Labels


class Conversations:
    """Whoever asks gives the user: what is another's is not found."""

    def __init__(self, database: Database, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._database = database
        self._clock = clock

    async def create(self, user_id: str, labels: Labels) -> Conversation:
        """A new one, without items."""
        async with self._database.write() as write:
            chat = await new_chat(write, user_id, self._clock())
            await write.execute(conversations.insert().values(chat_id=chat.id, labels=labels))
        return Conversation(chat, labels)

    async def find(self, user_id: str, chat_id: str) -> Conversation:
        """Raises NotFound."""
        async with self._database.read() as read:
            return await _own(read, user_id, chat_id)

    async def label(self, user_id: str, chat_id: str, labels: Labels) -> Conversation:
        """These in place of those that it had. Raises NotFound."""
        async with self._database.write() as write:
            chat = await find_conversation(write, user_id, chat_id, lock=True)
            changed = update(conversations).where(conversations.c.chat_id == chat_id)
            await write.execute(changed.values(labels=labels))
        return Conversation(chat, labels)

    async def delete(self, user_id: str, chat_id: str) -> None:
        """With everything in it. Raises NotFound."""
        async with self._database.write() as write:
            await find_conversation(write, user_id, chat_id, lock=True)
            await untie(write, select(chats.c.id).where(chats.c.id == chat_id))
            await write.execute(delete(chats).where(chats.c.id == chat_id))

    async def add(self, user_id: str, chat_id: str, content: str, items: Items, texts: Messages) -> None:
        """Items at its end, which nobody answers yet. `content`: what they say; `texts`: with their limits.

        Raises NotFound, TooLarge.
        """
        async with self._database.write() as write:
            chat = await find_conversation(write, user_id, chat_id, lock=True)
            tail = chat.active_thread_tail_message_id
            said = await texts.write_prompt(write, chat, tail, content)
            await write.execute(question_items.insert().values(message_id=said.id, items=items))

    async def replace(self, message_id: str, items: Items) -> None:
        """What is left of the items that were added with a message."""
        changed = update(question_items).where(question_items.c.message_id == message_id)
        async with self._database.write() as write:
            await write.execute(changed.values(items=items))


async def _own(connection: AsyncConnection, user_id: str, chat_id: str) -> Conversation:
    chat = await find_conversation(connection, user_id, chat_id)
    wanted = select(conversations.c.labels).where(conversations.c.chat_id == chat_id)
    labels = (await connection.execute(wanted)).scalar_one_or_none()
    if labels is None:
        raise NotFound("Conversation not found")
    return Conversation(chat, labels)
