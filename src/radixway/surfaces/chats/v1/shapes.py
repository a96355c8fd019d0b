"""What `/v1/chats` answers with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from radixway.chat import records
from radixway.chat.branches import siblings
from radixway.chat.records import MessageState, Role


class Message(BaseModel):
    """One message; its parents make the thread that it belongs to."""

    id: str
    chat_id: str
    parent_id: str | None
    role: Role
    state: MessageState
    content: str | None
    error: str | None
    created_at: datetime
    score: int
    model: str | None
    usage: dict[str, Any] | None
    finish_reason: str | None
    waited_s: float | None
    """Between the question and a worker."""
    time_to_first_token_s: float | None
    """Between the question and the first word."""
    took_s: float | None
    """Between the question and the end."""
    siblings: list[str] | None = None
    """What stands in its place, itself included; where the whole chat is told."""

    @classmethod
    def of(cls, message: records.Message, family: list[str] | None = None) -> Message:
        """`family`: its siblings."""

        def since(at: float | None) -> float | None:
            return None if at is None else max(0.0, at - message.created_at)

        return cls(
            **{name: getattr(message, name) for name in _PLAIN},
            created_at=_when(message.created_at),
            waited_s=since(message.work_begin_at),
            time_to_first_token_s=since(message.first_token_at),
            took_s=since(message.work_end_at),
            siblings=family,
        )


_PLAIN = (
    *("id", "chat_id", "parent_id", "role", "state", "content", "error"),
    *("score", "model", "usage", "finish_reason"),
)


class Chat(BaseModel):
    """A chat, without its messages."""

    id: str
    title: str | None
    created_at: datetime
    modified_at: datetime
    archived: bool
    hidden: bool
    allow_data_use: bool
    tail_id: str | None
    """The end of the thread that is open."""

    @classmethod
    def of(cls, chat: records.Chat) -> Chat:
        """The shape of a row."""
        return cls(**_chat(chat))


class WholeChat(Chat):
    """A chat with all its messages, in the order in which they were made."""

    messages: list[Message]

    @classmethod
    def with_messages(cls, chat: records.Chat, messages: Sequence[records.Message]) -> WholeChat:
        """The shape of rows."""
        families = siblings(messages)
        read = [Message.of(message, families[message.id]) for message in messages]
        return cls(**_chat(chat), messages=read)


class ChatPage(BaseModel):
    """Some chats, newest first."""

    chats: list[Chat]
    next: str | None
    """For `after`, where older ones follow."""
    previous: str | None
    """For `before`, where newer ones come first."""


class Thread(BaseModel):
    """From the first message of a chat to one of its ends."""

    tail_id: str
    messages: list[Message]


class Turn(BaseModel):
    """What a user said, and its answer, where one was asked for."""

    message: Message
    answer: Message | None


def _chat(chat: records.Chat) -> dict[str, Any]:
    return {
        "id": chat.id,
        "title": chat.title,
        "created_at": _when(chat.created_at),
        "modified_at": _when(chat.modified_at),
        "archived": chat.archived,
        "hidden": chat.hidden,
        "allow_data_use": chat.allow_data_use,
        "tail_id": chat.active_thread_tail_message_id,
    }


def _when(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
