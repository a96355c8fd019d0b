"""Conversations: chats with labels, to which items are added with responses and without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.messages import MessageStore, detach_messages
from radixway.chat.records import Chat
from radixway.chat.schema import chats, conversations, question_items
from radixway.chat.stored_responses import ResponseItems, create_hidden_chat, find_conversation

ConversationLabels = dict[str, str]


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """A chat with its labels."""

    chat: Chat
    labels: ConversationLabels


class ConversationStore:
    """The conversations of all users. Those of another user than the given one are not found."""

    def __init__(self, database: ChatDatabase, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._database = database
        self._clock = clock

    async def create_conversation(self, user_id: str, labels: ConversationLabels) -> ConversationRecord:
        """Create a conversation with `labels` and without items."""
        async with self._database.write_transaction() as write:
            chat = await create_hidden_chat(write, user_id, self._clock())
            await write.execute(conversations.insert().values(chat_id=chat.id, labels=labels))
        return ConversationRecord(chat, labels)

    async def find_conversation(self, user_id: str, chat_id: str) -> ConversationRecord:
        """Return the conversation `chat_id`. Raises ChatNotFoundError."""
        async with self._database.read_connection() as read:
            return await _own_conversation(read, user_id, chat_id)

    async def set_labels(self, user_id: str, chat_id: str, labels: ConversationLabels) -> ConversationRecord:
        """Replace the labels of `chat_id` by `labels`. Raises ChatNotFoundError."""
        async with self._database.write_transaction() as write:
            chat = await find_conversation(write, user_id, chat_id, lock=True)
            changed = update(conversations).where(conversations.c.chat_id == chat_id)
            await write.execute(changed.values(labels=labels))
        return ConversationRecord(chat, labels)

    async def delete_conversation(self, user_id: str, chat_id: str) -> None:
        """Delete `chat_id` with everything in it. Raises ChatNotFoundError."""
        async with self._database.write_transaction() as write:
            await find_conversation(write, user_id, chat_id, lock=True)
            await detach_messages(write, select(chats.c.id).where(chats.c.id == chat_id))
            await write.execute(delete(chats).where(chats.c.id == chat_id))

    async def add_items(
        self, user_id: str, chat_id: str, content: str, items: ResponseItems, texts: MessageStore
    ) -> None:
        """Append `items` without requesting an answer. `content`: their text; `texts`: the store with the
        user's limits.

        Raises ChatNotFoundError, TooLarge.
        """
        async with self._database.write_transaction() as write:
            chat = await find_conversation(write, user_id, chat_id, lock=True)
            tail = chat.active_thread_tail_message_id
            said = await texts.write_prompt(write, chat, tail, content)
            await write.execute(question_items.insert().values(message_id=said.id, items=items))

    async def replace_items(self, message_id: str, items: ResponseItems) -> None:
        """Replace the items of `message_id` by `items`."""
        changed = update(question_items).where(question_items.c.message_id == message_id)
        async with self._database.write_transaction() as write:
            await write.execute(changed.values(items=items))


async def _own_conversation(connection: AsyncConnection, user_id: str, chat_id: str) -> ConversationRecord:
    chat = await find_conversation(connection, user_id, chat_id)
    wanted = select(conversations.c.labels).where(conversations.c.chat_id == chat_id)
    labels = (await connection.execute(wanted)).scalar_one_or_none()
    if labels is None:
        raise ChatNotFoundError("Conversation not found")
    return ConversationRecord(chat, labels)
