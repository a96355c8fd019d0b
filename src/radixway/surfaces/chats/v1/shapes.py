"""What `/v1/chats` answers with."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel

from radixway.chat import records, shares
from radixway.chat.branches import siblings
from radixway.chat.records import MessageState, Role


class Place(BaseModel):
    """Where an answer stands in its queue."""

    position: int
    """How many go before it."""
    size: int
    eta_s: float | None
    """Until it is begun, at the pace of the last minutes; null: none of its model was begun in them."""


class Safety(BaseModel):
    """How a question was made safe before it was answered."""

    level: int | None
    label: str | None
    rots: str | None
    """Rules of thumb."""
    prompt: str
    """What the model was shown."""


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
    used_plugin: dict[str, Any] | None
    """Of an answer: the plugin, and in `execution_details` what was done with it."""
    safety: Safety | None = None
    """Of a question that was made safe."""
    queue: Place | None = None
    """Where a pending answer stands; where the message alone is told."""
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
            safety=_safety(message),
        )


def _safety(message: records.Message) -> Safety | None:
    if message.safe_content is None:
        return None
    level, label, rots = message.safety_level, message.safety_label, message.safety_rots
    return Safety(level=level, label=label, rots=rots, prompt=message.safe_content)


_PLAIN = (
    *("id", "chat_id", "parent_id", "role", "state", "content", "error"),
    *("score", "model", "usage", "finish_reason", "used_plugin"),
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
    tags: list[str]
    tail_id: str | None
    """The end of the thread that is open."""

    @classmethod
    def of(cls, chat: records.Chat, tags: list[str]) -> Chat:
        """The shape of a row."""
        return cls(**_chat(chat), tags=tags)


class WholeChat(Chat):
    """A chat with all its messages, in the order in which they were made."""

    messages: list[Message]

    @classmethod
    def with_messages(
        cls, chat: records.Chat, tags: list[str], messages: Sequence[records.Message]
    ) -> WholeChat:
        """The shape of rows."""
        families = siblings(messages)
        read = [Message.of(message, families[message.id]) for message in messages]
        return cls(**_chat(chat), tags=tags, messages=read)


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


class Hit(BaseModel):
    """A message that was found."""

    message: Message
    chat_title: str | None
    snippet: str


class Found(BaseModel):
    """Some messages, newest first."""

    hits: list[Hit]
    next: str | None
    """For `before`, where there may be older ones."""


class Imported(BaseModel):
    """The new ids of chats, in the order of their file."""

    chats: list[str]


class TagCount(BaseModel):
    """How many chats have a tag."""

    tag: str
    chats: int


class Share(BaseModel):
    """A link, without the secret that opens it."""

    id: str
    chat_id: str
    message_id: str
    title: str | None
    created_at: datetime
    expires_at: datetime | None

    @classmethod
    def of(cls, share: shares.Share) -> Share:
        """The shape of a row."""
        return cls(**_share(share))


class MadeShare(Share):
    """A link, with the secret that opens it."""

    token: str
    path: str

    @classmethod
    def made(cls, share: shares.Share, token: str) -> MadeShare:
        """With its token, this once."""
        return cls(**_share(share), token=token, path=f"/v1/chats/shared/{token}")


class SharedMessage(BaseModel):
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

    @classmethod
    def of(cls, share: shares.Share, thread: Sequence[records.Message]) -> SharedThread:
        """The shape of rows."""
        read = [
            SharedMessage(
                role=each.role, content=each.content, created_at=_when(each.created_at), model=each.model
            )
            for each in thread
        ]
        return cls(title=share.title, shared_at=_when(share.created_at), messages=read)


def _share(share: shares.Share) -> dict[str, Any]:
    return {
        "id": share.id,
        "chat_id": share.chat_id,
        "message_id": share.message_id,
        "title": share.title,
        "created_at": _when(share.created_at),
        "expires_at": None if share.expires_at is None else _when(share.expires_at),
    }


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
