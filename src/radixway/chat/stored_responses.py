"""Stored responses and conversations: answers that are requested with items and not with text alone.

A response is an assistant's message; the items that it was asked with are kept with the prompter's message
above it, and its request, and its output's blocks, with itself. One response after another is a thread of a
chat, which is hidden from lists. A conversation is a chat with labels; it takes items without a response too.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

from sqlalchemy import and_, delete, exists, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.active_answers import ActiveAnswers
from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError, IdempotencyKeyReusedError
from radixway.chat.ids import new_id
from radixway.chat.messages import (
    AnswerRequest,
    MessageStore,
    detach_messages,
    is_other_call,
    own_chat,
    own_message,
    read_message,
)
from radixway.chat.records import Chat, Message, MessageState, Role
from radixway.chat.schema import chats, conversations, jobs, messages, question_items, responses
from radixway.chat.statements import LEASED

ResponseItems = list[dict[str, Any]]

_CAME_TO_NOTHING = (MessageState.CANCELLED, MessageState.ABORTED_BY_WORKER, MessageState.TIMEOUT)


@dataclass(frozen=True, slots=True)
class NewResponse:
    """The parameters of a requested response."""

    content: str
    """Text of its items."""
    items: ResponseItems
    request: dict[str, Any]
    """The body as it came, without `input`."""
    queue: str
    model: str
    work_parameters: dict[str, Any]
    background: bool = False
    previous: str | None = None
    """The response that it goes on from, by its message's id."""
    conversation: str | None = None
    waits_s: float | None = None
    idempotency_key: str | None = None
    request_digest: str | None = None
    """Digest of the call with that key."""


@dataclass(frozen=True, slots=True)
class StoredResponse:
    """A response with its request and output."""

    message: Message
    request: dict[str, Any]
    background: bool
    output: ResponseItems | None
    """Its blocks; None where there were only words, or none yet."""
    failure: dict[str, Any] | None
    """Why it failed, as HTTP tells it: `status`, `code`, `message`, `param`."""
    is_conversation: bool = False


class ResponseStore:
    """The responses of all users. Those of another user than the given one are not found."""

    def __init__(self, database: ChatDatabase, answers: ActiveAnswers, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._database = database
        self._answers = answers
        self._clock = clock

    async def create_response(self, user_id: str, new: NewResponse, texts: MessageStore) -> StoredResponse:
        """Write question, answer and job, and wake a worker. `texts`: with the user's limits.

        The same `idempotency_key` gives the same response. Raises ChatNotFoundError: the response before, or
        the conversation; IdempotencyKeyReusedError, ChatLimitExceededError, ChatTooLargeError.
        """
        try:
            made, is_new = await self._create_response(user_id, new, texts)
        except IntegrityError:  # another call with that key was first
            made, is_new = await self._create_response(user_id, new, texts)
        if is_new:
            await self._answers.announce_job(new.queue)
        return made

    async def find_response(self, user_id: str, message_id: str) -> StoredResponse:
        """Return the response `message_id`. Raises ChatNotFoundError."""
        async with self._database.read_connection() as read:
            return await _own_response(read, user_id, message_id)

    async def find_last_turn(self, user_id: str, chat_id: str) -> str | None:
        """Return the message from which the conversation `chat_id` goes on. Raises ChatNotFoundError."""
        async with self._database.read_connection() as read:
            chat = await find_conversation(read, user_id, chat_id)
            return await _last_counted(read, chat.active_thread_tail_message_id)

    async def get_response(self, message_id: str) -> StoredResponse | None:
        """Return the response `message_id` of any user; None: there is none any more."""
        async with self._database.read_connection() as read:
            message = await read_message(read, message_id)
            return None if message is None else await _find_response(read, message)

    async def load_items(
        self, ids: Collection[str]
    ) -> tuple[dict[str, ResponseItems], dict[str, ResponseItems]]:
        """Return the items of questions and the blocks of answers among `ids`, by message."""
        async with self._database.read_connection() as read:
            item_rows = await read.execute(select(question_items).where(question_items.c.message_id.in_(ids)))
            output_rows = await read.execute(
                select(responses.c.message_id, responses.c.output).where(
                    responses.c.message_id.in_(ids), responses.c.output.is_not(None)
                )
            )
            questions = {row.message_id: row.items for row in item_rows}
            return questions, {row.message_id: row.output for row in output_rows if row.output}

    async def save_output(self, message_id: str, attempt_id: str, blocks: ResponseItems) -> None:
        """Save the `blocks` of `attempt_id`, while it is current or the answer was cancelled amid it."""
        is_leased = exists().where(
            jobs.c.message_id == message_id, jobs.c.attempt_id == attempt_id, jobs.c.state == LEASED
        )
        stopped = exists().where(messages.c.id == message_id, messages.c.state == MessageState.CANCELLED)
        blank = and_(stopped, responses.c.output.is_(None))
        await self._update_response(message_id, or_(is_leased, blank), output=blocks)

    async def save_failure(self, message_id: str, failure: dict[str, Any]) -> None:
        """Save why the last attempt at `message_id` failed."""
        await self._update_response(message_id, failure=failure)

    async def delete_response(self, user_id: str, message_id: str) -> None:
        """Delete the response `message_id`: it can no longer be read or continued. Its texts are deleted at
        once, or with the last response that continues it. Raises ChatNotFoundError.
        """
        async with self._database.write_transaction() as write:
            found = await _own_response(write, user_id, message_id)
            chat = await own_chat(write, user_id, found.message.chat_id, lock=True)
            marked = update(responses).where(responses.c.message_id == message_id)
            await write.execute(marked.values(deleted=True))
            await _prune_unused(write, chat, found.message)

    async def _create_response(
        self, user_id: str, new: NewResponse, texts: MessageStore
    ) -> tuple[StoredResponse, bool]:
        async with self._database.write_transaction() as write:
            known = await _find_by_key(write, user_id, new.idempotency_key, new.request_digest)
            if known is not None:
                return known, False
            chat, parent, tail = await self._find_place(write, user_id, new)
            prompt = await texts.write_prompt(write, chat, parent, new.content)
            await write.execute(question_items.insert().values(message_id=prompt.id, items=new.items))
            wanted = new.queue, new.model, new.work_parameters
            question = AnswerRequest(prompt.id, *wanted, waits_s=new.waits_s)
            answer, _ = await texts.write_answer(write, user_id, chat.id, question, has_items=True)
            fields = {"user_id": user_id, "request": new.request, "background": new.background}
            repeatable = {"idempotency_key": new.idempotency_key, "request_digest": new.request_digest}
            await write.execute(responses.insert().values(message_id=answer.id, **repeatable, **fields))
            if tail is not None:
                await set_chat_tail(write, chat.id, tail)
            is_conversation = await _is_conversation(write, chat.id)
        return StoredResponse(answer, new.request, new.background, None, None, is_conversation), True

    async def _find_place(
        self, write: AsyncConnection, user_id: str, new: NewResponse
    ) -> tuple[Chat, str | None, str | None]:
        """Return the chat, the question's parent, and the chat's tail after it (None: the answer)."""
        if new.conversation is not None:
            chat = await find_conversation(write, user_id, new.conversation, lock=True)
            return chat, await _last_counted(write, chat.active_thread_tail_message_id), None
        if new.previous is not None:
            before = await _own_response(write, user_id, new.previous)
            chat = await own_chat(write, user_id, before.message.chat_id, lock=True)
            tail = chat.active_thread_tail_message_id if before.is_conversation else None
            return chat, before.message.id, tail
        return await create_hidden_chat(write, user_id, self._clock()), None, None

    async def _update_response(self, message_id: str, *conditions: Any, **values: Any) -> None:
        async with self._database.write_transaction() as write:
            wanted = update(responses).where(responses.c.message_id == message_id, *conditions)
            await write.execute(wanted.values(**values))


async def create_hidden_chat(write: AsyncConnection, user_id: str, now: float) -> Chat:
    """Create a chat of `user_id` that lists do not show. `now`: seconds since 1970."""
    row = {"id": new_id(), "user_id": user_id, "created_at": now, "modified_at": now}
    quiet = {"hidden": True, "titled_by": "user"}  # not listed, so no model makes a title
    made = await write.execute(chats.insert().values(**row, **quiet).returning(*chats.c))
    return Chat(**made.one()._mapping)


async def find_conversation(
    connection: AsyncConnection, user_id: str, chat_id: str, *, lock: bool = False
) -> Chat:
    """Return the chat of the conversation `chat_id`. Raises ChatNotFoundError."""
    chat = await own_chat(connection, user_id, chat_id, lock=lock)
    if not await _is_conversation(connection, chat_id):
        raise ChatNotFoundError("Conversation not found")
    return chat


async def set_chat_tail(write: AsyncConnection, chat_id: str, message_id: str | None) -> None:
    """Make `message_id` the end of the thread that is open in `chat_id`."""
    changed = update(chats).where(chats.c.id == chat_id)
    await write.execute(changed.values(active_thread_tail_message_id=message_id))


async def _own_response(connection: AsyncConnection, user_id: str, message_id: str) -> StoredResponse:
    found = await _find_response(connection, await own_message(connection, user_id, message_id))
    if found is None:
        raise ChatNotFoundError("Response not found")
    return found


async def _find_response(connection: AsyncConnection, message: Message) -> StoredResponse | None:
    """Return the stored response, or None for a message that is none or was deleted."""
    row = (await connection.execute(select(responses).where(responses.c.message_id == message.id))).first()
    if row is None or row.deleted:
        return None
    is_conversation = await _is_conversation(connection, message.chat_id)
    return StoredResponse(message, row.request, row.background, row.output, row.failure, is_conversation)


async def _find_by_key(
    connection: AsyncConnection, user_id: str, key: str | None, request_digest: str | None
) -> StoredResponse | None:
    if key is None:
        return None
    wanted = select(responses.c.message_id, responses.c.request_digest).where(
        responses.c.user_id == user_id, responses.c.idempotency_key == key
    )
    found = (await connection.execute(wanted)).first()
    if found is None:
        return None
    if is_other_call(found.request_digest, request_digest):
        raise IdempotencyKeyReusedError
    return await _own_response(connection, user_id, found.message_id)


async def _is_conversation(connection: AsyncConnection, chat_id: str) -> bool:
    wanted = select(conversations.c.chat_id).where(conversations.c.chat_id == chat_id)
    return (await connection.execute(wanted)).first() is not None


async def _last_counted(connection: AsyncConnection, message_id: str | None) -> str | None:
    """Return the last turn that counts, up from the end of the thread."""
    while message_id is not None:
        own, question = messages.alias(), messages.alias()
        wanted = (
            select(own.c.role, own.c.state, question.c.parent_id)
            .outerjoin(question, question.c.id == own.c.parent_id)
            .where(own.c.id == message_id)
        )
        found = (await connection.execute(wanted)).first()
        if found is None or found.role == Role.PROMPTER or found.state not in _CAME_TO_NOTHING:
            break
        message_id = found.parent_id
    return message_id


async def _prune_unused(write: AsyncConnection, chat: Chat, answer: Message) -> None:
    """Delete an unused response with its question and the ancestors that only it needed."""
    at: Message | None = answer
    while at is not None and not await _has_children(write, at.id) and await _is_deleted(write, at.id):
        await write.execute(delete(messages).where(messages.c.id == at.id))
        question = None if at.parent_id is None else await read_message(write, at.parent_id)
        if question is None or await _has_children(write, question.id):
            at = None
        else:
            await write.execute(delete(messages).where(messages.c.id == question.id))
            at = None if question.parent_id is None else await read_message(write, question.parent_id)
        if chat.active_thread_tail_message_id == answer.id:
            await set_chat_tail(write, chat.id, None if at is None else at.id)
    left = select(messages.c.id).where(messages.c.chat_id == chat.id).limit(1)
    if (await write.execute(left)).first() is None and not await _is_conversation(write, chat.id):
        await write.execute(delete(chats).where(chats.c.id == chat.id))


async def _has_children(connection: AsyncConnection, message_id: str) -> bool:
    wanted = select(messages.c.id).where(messages.c.parent_id == message_id).limit(1)
    return (await connection.execute(wanted)).first() is not None


async def _is_deleted(connection: AsyncConnection, message_id: str) -> bool:
    wanted = select(responses.c.deleted).where(responses.c.message_id == message_id)
    return bool((await connection.execute(wanted)).scalar_one_or_none())


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
        """Append `items` without requesting an answer. `content`: their text; `texts`: with user limits.

        Raises ChatNotFoundError, ChatTooLargeError.
        """
        async with self._database.write_transaction() as write:
            chat = await find_conversation(write, user_id, chat_id, lock=True)
            tail = chat.active_thread_tail_message_id
            prompt = await texts.write_prompt(write, chat, tail, content)
            await write.execute(question_items.insert().values(message_id=prompt.id, items=items))

    async def replace_items(self, message_id: str, items: ResponseItems) -> None:
        """Replace the items of `message_id` by `items`."""
        changed = update(question_items).where(question_items.c.message_id == message_id)
        await self._database.execute(changed.values(items=items))


async def _own_conversation(connection: AsyncConnection, user_id: str, chat_id: str) -> ConversationRecord:
    chat = await find_conversation(connection, user_id, chat_id)
    wanted = select(conversations.c.labels).where(conversations.c.chat_id == chat_id)
    labels = (await connection.execute(wanted)).scalar_one_or_none()
    if labels is None:
        raise ChatNotFoundError("Conversation not found")
    return ConversationRecord(chat, labels)
