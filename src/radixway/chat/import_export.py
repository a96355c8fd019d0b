"""Exports and imports chats as JSON lines.

A line says what it is: `{"type": "chat", …}` begins a chat, and the `{"type": "message", …}` after it are its
messages, parents before their children. Ids hold within one file: what is read gets new ones.
"""

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from radixway.chat.database import ChatDatabase
from radixway.chat.errors import InvalidFieldError
from radixway.chat.ids import new_id
from radixway.chat.limits import ChatLimits
from radixway.chat.records import Chat, Message, MessageState, Role
from radixway.chat.schema import chat_tags, chats, messages
from radixway.chat.webhooks import WebhookEvent, WebhookOutbox

_Id = Annotated[str, Field(min_length=1, max_length=64)]
_Time = Annotated[float, Field(ge=0, lt=1e11)]


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore")


class ChatLine(_Line):
    """A chat."""

    type: Literal["chat"] = "chat"
    id: _Id
    title: Annotated[str, Field(max_length=100)] | None = None
    created_at: _Time
    modified_at: _Time
    archived: bool = False
    hidden: bool = False
    allow_data_use: bool = True
    tags: Annotated[list[Annotated[str, Field(min_length=1, max_length=50)]], Field(max_length=50)] = []
    tail_id: _Id | None = None


class MessageLine(_Line):
    """A message of the chat that began last."""

    type: Literal["message"] = "message"
    id: _Id
    parent_id: _Id | None = None
    role: Role
    state: MessageState
    content: str | None = None
    error: str | None = None
    created_at: _Time
    score: Annotated[int, Field(ge=-1, le=1)] = 0
    model: Annotated[str, Field(max_length=256)] | None = None
    usage: dict[str, Any] | None = None
    finish_reason: Annotated[str, Field(max_length=64)] | None = None


_LINE: TypeAdapter[ChatLine | MessageLine] = TypeAdapter(
    Annotated[ChatLine | MessageLine, Field(discriminator="type")]
)
_OF_CHAT = ChatLine.model_fields.keys() - {"type", "tags", "tail_id"}
_OF_MESSAGE = tuple(name for name in MessageLine.model_fields if name != "type")


@dataclass(frozen=True, slots=True)
class PortableChat:
    """A chat as it stands in a file."""

    chat: ChatLine
    messages: dict[str, MessageLine]
    """By their ids in the file, in its order."""


def to_portable_chat(chat: Chat, tags: Sequence[str], texts: Iterable[Message]) -> PortableChat:
    """Return `chat` as it can be exported, without answers in flight and what is below them."""
    exported: dict[str, MessageLine] = {}
    for message in texts:
        if message.state.is_final and (message.parent_id is None or message.parent_id in exported):
            exported[message.id] = MessageLine(**{name: getattr(message, name) for name in _OF_MESSAGE})
    fields, tail = {name: getattr(chat, name) for name in _OF_CHAT}, chat.active_thread_tail_message_id
    tail_id = tail if tail in exported else None
    return PortableChat(ChatLine(**fields, tags=list(tags), tail_id=tail_id), exported)


def encode_chat(chat: PortableChat) -> bytes:
    """Encode `chat` as JSON lines."""
    lines = (chat.chat, *chat.messages.values())
    return b"".join(line.model_dump_json().encode() + b"\n" for line in lines)


def parse_chats(data: bytes, limits: ChatLimits, *, max_messages: int) -> list[PortableChat]:
    """Parse and check the chats in `data`. Raises InvalidFieldError, which names the line."""
    found: list[PortableChat] = []
    count = 0
    for number, line in _parse_lines(data):
        if isinstance(line, ChatLine):
            found.append(PortableChat(line, {}))
            continue
        count += 1
        if count > max_messages:
            raise InvalidFieldError(f"line {number}", f"more than {max_messages} messages", status=413)
        if not found:
            raise InvalidFieldError(f"line {number}", "a message stands before the first chat")
        _check_message(f"line {number}", line, found[-1], limits)
        found[-1].messages[line.id] = line
    for chat in found:
        tail = chat.chat.tail_id
        if tail is not None and tail not in chat.messages:
            raise InvalidFieldError("tail_id", f"chat {chat.chat.id}: there is no message {tail}")
    return found


class ChatImporter:
    """Puts chats from files into the database."""

    def __init__(
        self,
        database: ChatDatabase,
        limits: ChatLimits,
        outbox: WebhookOutbox | None = None,
        *,
        max_messages: int = 20_000,
    ) -> None:
        """`outbox`: for events of chats. `max_messages`: of one file."""
        self._database = database
        self._outbox = outbox or WebhookOutbox(database, time.time)
        self._limits = limits
        self._max_messages = max_messages

    async def import_chats(self, user_id: str, data: bytes) -> list[str]:
        """Import all chats in `data`, or none of them; returns their new ids. Raises InvalidFieldError."""
        given = parse_chats(data, self._limits, max_messages=self._max_messages)
        ids = [new_id() for _ in given]
        async with self._database.write_transaction() as write:
            for chat_id, chat in zip(ids, given, strict=True):
                known = {old: new_id() for old in chat.messages}
                await write.execute(chats.insert().values(_chat_row(chat.chat, chat_id, user_id, known)))
                for message in chat.messages.values():
                    await write.execute(messages.insert().values(_message_row(message, chat_id, known)))
                for tag in sorted(set(chat.chat.tags)):
                    await write.execute(chat_tags.insert().values(chat_id=chat_id, tag=tag))
                await self._outbox.put(write, user_id, WebhookEvent("chat.created", chat_id))
        return ids


def _parse_lines(data: bytes) -> Iterator[tuple[int, ChatLine | MessageLine]]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            read = _LINE.validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            where = [f"line {number}", *(str(part) for part in first["loc"][1:])]
            raise InvalidFieldError(".".join(where), first["msg"]) from None
        if b"\\u0000" in line and _has_nul(read.model_dump()):  # PostgreSQL cannot store it
            raise InvalidFieldError(f"line {number}", "no text may have a NUL character")
        yield number, read


def _has_nul(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_has_nul(name) or _has_nul(item) for name, item in value.items())
    if isinstance(value, list):
        return any(map(_has_nul, value))
    return isinstance(value, str) and "\x00" in value


def _check_message(where: str, line: MessageLine, chat: PortableChat, limits: ChatLimits) -> None:
    """Check whether a message may stand there. Raises InvalidFieldError."""
    if limits.characters is not None and len(line.content or "") > limits.characters:
        raise InvalidFieldError(f"{where}.content", f"longer than {limits.characters} characters", status=413)
    if limits.messages is not None and len(chat.messages) >= limits.messages:
        raise InvalidFieldError(where, f"more than {limits.messages} messages in a chat", status=413)
    try:
        json.dumps(line.usage, allow_nan=False).encode()
    except (ValueError, RecursionError):
        raise InvalidFieldError(f"{where}.usage", "this cannot be written as JSON") from None
    by_user = line.role is Role.PROMPTER
    if not line.state.is_final or by_user is not (line.state is MessageState.MANUAL):
        raise InvalidFieldError(f"{where}.state", f"a message of {line.role} cannot be {line.state}")
    if by_user and line.content is None:
        raise InvalidFieldError(f"{where}.content", "a user's message has words")
    if line.id in chat.messages:
        raise InvalidFieldError(f"{where}.id", "two messages of that id")
    parent = None if line.parent_id is None else chat.messages.get(line.parent_id)
    if line.parent_id is not None and parent is None:
        raise InvalidFieldError(f"{where}.parent_id", "there is no such message above this line")
    above = Role.ASSISTANT if parent is None else parent.role
    if above is line.role:
        raise InvalidFieldError(f"{where}.parent_id", "users and models take turns, and users begin")


def _chat_row(line: ChatLine, chat_id: str, user_id: str, known: dict[str, str]) -> dict[str, Any]:
    return {
        "id": chat_id,
        "user_id": user_id,
        "titled_by": None if line.title is None else "user",
        **line.model_dump(exclude={"type", "id", "tags", "tail_id"}),
        "active_thread_tail_message_id": None if line.tail_id is None else known[line.tail_id],
    }


def _message_row(line: MessageLine, chat_id: str, known: dict[str, str]) -> dict[str, Any]:
    parent = None if line.parent_id is None else known[line.parent_id]
    ids = {"id": known[line.id], "chat_id": chat_id, "parent_id": parent}
    return line.model_dump(exclude={"type"}) | ids
