"""Replies of `/v1/chats`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict

from radixway.chat import records
from radixway.chat.records import MessageState, Role


class QueuePlaceRead(BaseModel):
    """The position of an answer in its queue."""

    position: int
    """How many go before it."""
    size: int
    eta_s: float | None
    """Until it is begun, at the pace of the last minutes; null: none of its model was begun in them."""


class SafetyRead(BaseModel):
    """The safety prefix of a question."""

    level: int | None
    label: str | None
    rots: str | None
    prompt: str
    """The prompt that the model got."""


class MessageRead(BaseModel):
    """A message; its parents form its thread."""

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
    """Seconds from the question to a worker."""
    time_to_first_token_s: float | None
    """Seconds from the question to the first token."""
    took_s: float | None
    """Seconds from the question to the end."""
    used_plugin: dict[str, Any] | None
    """The plugin of an answer; its steps are in `execution_details`."""
    safety: SafetyRead | None = None
    """Set for a question that was made safe."""
    queue: QueuePlaceRead | None = None
    """Queue position of a pending answer, in reads of a single message."""
    siblings: list[str] | None = None
    """Ids of its alternatives, itself included, in reads of a whole chat."""

    @classmethod
    def from_record(cls, message: records.Message, family: list[str] | None = None) -> MessageRead:
        """`family`: its siblings."""

        def since(at: float | None) -> float | None:
            return None if at is None else max(0.0, at - message.created_at)

        safety = None
        if message.safe_content is not None:
            level, label, rots = message.safety_level, message.safety_label, message.safety_rots
            safety = SafetyRead(level=level, label=label, rots=rots, prompt=message.safe_content)
        return cls(
            **{name: getattr(message, name) for name in _PLAIN},
            created_at=_utc_time(message.created_at),
            waited_s=since(message.work_begin_at),
            time_to_first_token_s=since(message.first_token_at),
            took_s=since(message.work_end_at),
            siblings=family,
            safety=safety,
        )


_PLAIN = (
    *("id", "chat_id", "parent_id", "role", "state", "content", "error"),
    *("score", "model", "usage", "finish_reason", "used_plugin"),
)


class ChatRead(BaseModel):
    """A chat, without its messages."""

    id: str
    title: str | None
    created_at: datetime
    modified_at: datetime
    archived: bool
    hidden: bool
    allow_data_use: bool
    tags: list[str]
    tail_id: str | None
    """The end of the thread that is open."""

    @classmethod
    def from_record(cls, chat: records.Chat, tags: list[str], **extra: Any) -> Self:
        """Build it from `chat` and its `tags`; `extra`: further fields."""
        return cls(
            id=chat.id,
            title=chat.title,
            created_at=_utc_time(chat.created_at),
            modified_at=_utc_time(chat.modified_at),
            archived=chat.archived,
            hidden=chat.hidden,
            allow_data_use=chat.allow_data_use,
            tags=tags,
            tail_id=chat.active_thread_tail_message_id,
            **extra,
        )


class ChatWithMessages(ChatRead):
    """A chat with all its messages, in the order in which they were made."""

    messages: list[MessageRead]


class ChatPage(BaseModel):
    """A page of chats, newest first."""

    chats: list[ChatRead]
    next: str | None
    """Cursor for `after`, if there are older ones."""
    previous: str | None
    """Cursor for `before`, if there are newer ones."""


class ThreadRead(BaseModel):
    """A thread, from a chat's first message to one of its leaves."""

    tail_id: str
    messages: list[MessageRead]


class TurnRead(BaseModel):
    """A user's message, and its answer, where one was asked for."""

    message: MessageRead
    answer: MessageRead | None


class SearchHitRead(BaseModel):
    """A message that was found."""

    message: MessageRead
    chat_title: str | None
    snippet: str


class SearchResultsRead(BaseModel):
    """A page of messages, newest first."""

    hits: list[SearchHitRead]
    next: str | None
    """Cursor for `before`, if there may be older ones."""


class ImportedChats(BaseModel):
    """The new ids of chats, in the order of their file."""

    chats: list[str]


class TagCount(BaseModel):
    """A tag, and how many chats have it."""

    tag: str
    chats: int


class RecordRead(BaseModel):
    """Read from the attributes of a record that have the same names; its times, floats, become UTC."""

    model_config = ConfigDict(from_attributes=True)


class ShareRead(RecordRead):
    """A link, without the secret that opens it."""

    id: str
    chat_id: str
    message_id: str
    title: str | None
    created_at: datetime
    expires_at: datetime | None


class ShareWithToken(ShareRead):
    """A link, with the secret that opens it."""

    token: str
    path: str


class SharedMessage(RecordRead):
    """A message as strangers see it."""

    role: Role
    content: str | None
    created_at: datetime
    model: str | None


class SharedThread(BaseModel):
    """A thread as strangers see it."""

    title: str | None
    shared_at: datetime
    messages: list[SharedMessage]


def _utc_time(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
