"""Chats and their messages: what may follow what, and the job that is written with the message it answers."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy import Row, Select, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat import statements
from radixway.chat.asking_key import asking_key
from radixway.chat.completion_hooks import CompletionHooks
from radixway.chat.database import ChatDatabase
from radixway.chat.errors import (
    ChatBusyError,
    ChatNotFoundError,
    ChatRefusedError,
    ChatTooLargeError,
    IdempotencyKeyReusedError,
)
from radixway.chat.ids import new_id
from radixway.chat.limits import ChatLimits
from radixway.chat.records import Chat, Message, MessageState, Role
from radixway.chat.schema import chats, jobs, messages
from radixway.chat.statements import BLOCKED, LEASED, READY, UNDER_WAY
from radixway.chat.threads import ThreadCache, read_thread

WhileBusy = Literal["reject", "interrupt", "enqueue"]
"""Of a question in a chat that is being answered: it is refused, ends other answers, or waits its turn."""
_MAX_TITLE_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class AnswerRequest:
    """The parameters of a requested answer."""

    parent_id: str
    queue: str
    """Workers of one kind share it; `pull:…` for those that fetch, `push:…` for the gateway's own."""
    model: str
    work_parameters: dict[str, Any]
    priority: int = 0
    waits_s: float | None = None
    """How long it may wait for a worker."""
    idempotency_key: str | None = None
    request_digest: str | None = None
    """Digest of the call with that key."""


class MessageStore:
    """The messages of all chats. Those of another user than the given one are not found."""

    def __init__(
        self,
        database: ChatDatabase,
        clock: Callable[[], float],
        limits: ChatLimits | None = None,
        ends: CompletionHooks | None = None,
        *,
        first_words: bool = True,
    ) -> None:
        """`clock`: seconds since 1970. `first_words`: of a chat become its title."""
        self._database = database
        self._clock = clock
        self._limits = limits or ChatLimits()
        self._ends = ends or CompletionHooks()
        self.histories: ThreadCache | None = None
        """Threads that were read recently."""
        self._first_words = first_words

    def without_limits(self) -> MessageStore:
        """Return this store without limits per user, for programs."""
        limits = replace(self._limits, at_once=None, rate=None, budget=None)
        return MessageStore(self._database, self._clock, limits, self._ends, first_words=self._first_words)

    async def count_answer(self, user_id: str) -> None:
        """Count an answer of `user_id` that is not stored. Raises ChatLimitExceededError."""
        async with self._database.write_transaction() as write:
            if self._limits.rate is not None:
                await self._limits.rate.spend_answer(write, user_id, self._clock())
            if self._limits.budget is not None:
                await self._limits.budget.check_budget(write, user_id, self._clock())

    async def charge_tokens(self, user_id: str, tokens: int) -> None:
        """Charge the `tokens` of an answer that is not stored to `user_id`."""
        if self._limits.budget is not None:
            async with self._database.write_transaction() as write:
                await self._limits.budget.charge_tokens(write, user_id, tokens, self._clock())

    async def find_message(self, user_id: str, message_id: str) -> Message:
        """Return `message_id`. Raises ChatNotFoundError."""
        async with self._database.read_connection() as read:
            return await own_message(read, user_id, message_id)

    async def get_message(self, message_id: str) -> Message | None:
        """Return `message_id`, of any user; None where there is none."""
        async with self._database.read_connection() as read:
            return await read_message(read, message_id)

    async def get_messages(self, ids: Collection[str]) -> list[Message]:
        """Return those of `ids` that exist."""
        found = select(messages).where(messages.c.id.in_(ids))
        return [Message.of_row(row) for row in await self._database.fetch_all(found)]

    async def list_messages(self, user_id: str, chat_id: str) -> list[Message]:
        """Return all messages of `chat_id` in the order of creation. Raises ChatNotFoundError."""
        async with self._database.read_connection() as read:
            await own_chat(read, user_id, chat_id)
            wanted = select(messages).where(messages.c.chat_id == chat_id).order_by(messages.c.id)
            return [Message.of_row(row) for row in await read.execute(wanted)]

    async def load_thread(self, message_id: str, chat_id: str | None = None) -> list[Message]:
        """Return `message_id` and all above it, root first; empty where there is no such message.

        `chat_id`: where it is known, and the chat may be asked for again soon.
        """
        if chat_id is not None and self.histories is not None:
            return await self.histories.load_thread(chat_id, message_id)
        async with self._database.read_connection() as read:
            return await read_thread(read, message_id)

    async def save_safe_prompt(
        self, attempt_id: str, message_id: str, content: str, level: int, label: str, rots: str
    ) -> Message | None:
        """Save `content`, a question as it was made safe. Returns None if the lease was lost."""
        texts = {"safe_content": content, "safety_label": label, "safety_rots": rots}
        noted = {name: text.replace("\x00", "") for name, text in texts.items()} | {"safety_level": level}
        lease = select(jobs.c.number).where(jobs.c.attempt_id == attempt_id, jobs.c.state == LEASED)
        async with self._database.write_transaction() as write:
            if (await write.execute(lease.with_for_update())).first() is None:
                return None
            changed = update(messages).where(messages.c.id == message_id).values(**noted)
            row = (await write.execute(changed.returning(messages))).first()
            return None if row is None else Message.of_row(row)

    async def write_question(
        self,
        user_id: str,
        chat_id: str,
        parent_id: str | None,
        content: str,
        *,
        idempotency_key: str | None = None,
        request_digest: str | None = None,
    ) -> Message:
        """Write a user's message below a finished answer, or as the first of a chat, which it names.

        The same `idempotency_key` gives the same message. Raises ChatNotFoundError, ChatRefusedError,
        ChatTooLargeError; IdempotencyKeyReusedError: the key was given with another `request_digest` before.
        """
        async with self._database.write_transaction() as write:
            chat = await own_chat(write, user_id, chat_id, lock=True)
            key = idempotency_key
            known = await find_by_idempotency_key(write, chat_id, key, Role.PROMPTER, request_digest)
            if known is not None:
                return known
            await self._check_parent(write, chat_id, parent_id)
            return await self.write_prompt(write, chat, parent_id, content, idempotency_key, request_digest)

    async def write_prompt(
        self,
        write: AsyncConnection,
        chat: Chat,
        parent_id: str | None,
        content: str,
        idempotency_key: str | None = None,
        request_digest: str | None = None,
    ) -> Message:
        """Write a user's message below `parent_id`, in a locked `chat`. Raises ChatTooLargeError."""
        if self._limits.characters is not None and len(content) > self._limits.characters:
            raise ChatTooLargeError("Message too long")
        await self._limits.check_message_limits(write, chat.id)
        message = await self._insert_message(
            write,
            chat_id=chat.id,
            parent_id=parent_id,
            role=Role.PROMPTER,
            state=MessageState.MANUAL,
            content=content,
            idempotency_key=idempotency_key,
            request_digest=request_digest,
        )
        named = chat.title is not None or parent_id is not None or not self._first_words
        title = chat.title if named else content.strip()[:_MAX_TITLE_CHARACTERS]
        await self._touch_chat(write, chat.id, message.id, title)
        return message

    async def request_answer(
        self,
        user_id: str,
        chat_id: str,
        question: AnswerRequest,
        *,
        while_busy: WhileBusy = "enqueue",
        spare_running: bool = False,
    ) -> tuple[Message, list[str]]:
        """Write an empty answer and its job in one transaction.

        Returns it, and the ids of the answers that were ended for it: never those to the same message, and
        with `spare_running` none that a worker has begun. The same `idempotency_key` gives the same message.
        Raises ChatNotFoundError, ChatRefusedError, IdempotencyKeyReusedError, ChatTooLargeError,
        ChatLimitExceededError, ChatQueueFullError, ChatBusyError.
        """
        async with self._database.write_transaction() as write:
            await own_chat(write, user_id, chat_id, lock=True)
            return await self.write_answer(
                write, user_id, chat_id, question, while_busy=while_busy, spare_running=spare_running
            )

    async def write_answer(
        self,
        write: AsyncConnection,
        user_id: str,
        chat_id: str,
        question: AnswerRequest,
        *,
        while_busy: WhileBusy = "enqueue",
        spare_running: bool = False,
        has_items: bool = False,
    ) -> tuple[Message, list[str]]:
        """Write an answer and its job as `request_answer` does, in a locked chat. `has_items`: the question
        has more than text.
        """
        key = question.idempotency_key
        known = await find_by_idempotency_key(write, chat_id, key, Role.ASSISTANT, question.request_digest)
        if known is not None:
            if known.parent_id != question.parent_id:
                raise IdempotencyKeyReusedError
            return known, []
        parent = await own_message(write, user_id, question.parent_id)
        if parent.chat_id != chat_id:
            raise ChatNotFoundError("Parent message not found")
        if parent.role is not Role.PROMPTER:
            raise ChatRefusedError("Parent message is not a prompter message")
        if not parent.content and not has_items:
            raise ChatRefusedError("Parent message has no words")
        await self._limits.check_message_limits(write, chat_id)
        await self._limits.check_chat_tokens(write, chat_id)
        ended = await self._end_competing(write, chat_id, parent.id, while_busy, spare_running)
        await self._limits.check_answer_share(write, user_id, question.queue, self._clock())
        message = await self._insert_message(
            write,
            chat_id=chat_id,
            parent_id=parent.id,
            role=Role.ASSISTANT,
            state=MessageState.PENDING,
            model=question.model,
            work_parameters=question.work_parameters,
            idempotency_key=key,
            request_digest=question.request_digest,
        )
        now = message.created_at
        await write.execute(
            statements.INSERT_JOB,
            {
                "message_id": message.id,
                "user_id": user_id,
                "key_id": asking_key.get(),
                "queue": question.queue,
                "priority": question.priority,
                "state": BLOCKED if await _is_in_flight(write, parent.parent_id) else READY,
                "created_at": now,
                "available_at": now,
                "deadline": None if question.waits_s is None else now + question.waits_s,
            },
        )
        await self._touch_chat(write, chat_id, message.id)
        return message, ended

    async def _end_competing(
        self, write: AsyncConnection, chat_id: str, parent_id: str, while_busy: WhileBusy, spare_running: bool
    ) -> list[str]:
        if while_busy == "enqueue":
            return []
        if while_busy == "reject":
            if (await write.execute(statements.UNDER_WAY_IN, {"chat": chat_id})).first() is not None:
                raise ChatBusyError("This chat is being answered")
            return []
        states = (READY, BLOCKED) if spare_running else (READY, BLOCKED, LEASED)
        wanted = {"chat": chat_id, "parent": parent_id, "states": states}
        in_the_way = list((await write.execute(statements.IN_THE_WAY, wanted)).scalars())
        for message_id in in_the_way:
            await end_message(write, message_id, MessageState.CANCELLED, self._clock(), ends=self._ends)
        return in_the_way

    async def _check_parent(self, write: AsyncConnection, chat_id: str, parent_id: str | None) -> None:
        if parent_id is None:
            if (await write.execute(statements.FIRST_IN, {"chat": chat_id})).first() is not None:
                raise ChatRefusedError("Trying to add first message to non-empty chat")
            return
        wanted = {"chat": chat_id, "message": parent_id}
        parent = (await write.execute(statements.PARENT_IN, wanted)).first()
        if parent is None:
            raise ChatRefusedError("Parent message not found")
        if parent.role != Role.ASSISTANT:
            raise ChatRefusedError("Parent message is not an assistant message")
        if parent.state != MessageState.COMPLETE:
            raise ChatRefusedError("Parent message is not complete")

    async def _insert_message(self, write: AsyncConnection, **values: Any) -> Message:
        values |= {"id": new_id(), "created_at": self._clock()}
        row = (await write.execute(statements.INSERT_MESSAGE, values)).one()
        return Message.of_row(row)

    async def _touch_chat(
        self, write: AsyncConnection, chat_id: str, tail: str, title: str | None = None
    ) -> None:
        values: dict[str, Any] = {"modified_at": self._clock(), "active_thread_tail_message_id": tail}
        if title is not None:
            values["title"] = title
        await write.execute(statements.CHANGE_CHAT, {"chat": chat_id, **values})


async def own_chat(connection: AsyncConnection, user_id: str, chat_id: str, *, lock: bool = False) -> Chat:
    """Return a user's chat; `lock`: until this transaction ends. Raises ChatNotFoundError."""
    wanted = statements.OWN_CHAT_LOCKED if lock else statements.OWN_CHAT
    row = (await connection.execute(wanted, {"chat": chat_id, "user": user_id})).first()
    if row is None:
        raise ChatNotFoundError("Chat not found")
    return Chat(**row._mapping)


async def end_message(
    write: AsyncConnection,
    message_id: str,
    state: MessageState,
    now: float,
    error: str | None = None,
    *,
    partial: str | None = None,
    ends: CompletionHooks | None = None,
) -> bool:
    """End the answer `message_id`, whatever state its job is in. Returns whether it was in flight.

    `partial`: its text so far, where that is not stored yet. `ends`: hooks to run.
    """
    await write.execute(jobs.delete().where(jobs.c.message_id == message_id))
    values: dict[str, Any] = {"state": state, "error": error, "work_end_at": now}
    if partial is not None:
        values["content"] = partial
    ended = update(messages).where(messages.c.id == message_id, messages.c.state.in_(UNDER_WAY))
    row = (await write.execute(ended.values(**values).returning(*messages.c))).first()
    if row is not None and ends is not None:
        await ends.run_hooks(write, Message.of_row(row))
    return row is not None


async def detach_messages(write: AsyncConnection, chat_ids: Select[tuple[str]]) -> None:
    """Clear the parents of all messages of `chat_ids`, which are deleted next.

    Otherwise deleting the first one deletes its children, and so on, one within the other: no database goes
    as deep as a thread can be long (SQLite: 1,000). Chats and jobs are locked before messages, as by all who
    ask and answer: otherwise each may have what the other waits for.
    """
    locked = select(chats.c.id).where(chats.c.id.in_(chat_ids)).order_by(chats.c.id).with_for_update()
    await write.execute(locked)
    of_chats = select(messages.c.id).where(messages.c.chat_id.in_(chat_ids))
    working = select(jobs.c.number).where(jobs.c.message_id.in_(of_chats)).order_by(jobs.c.number)
    await write.execute(working.with_for_update())
    tied = messages.c.chat_id.in_(chat_ids), messages.c.parent_id.is_not(None)
    await write.execute(update(messages).where(*tied).values(parent_id=None))


async def read_message(connection: AsyncConnection, message_id: str) -> Message | None:
    """Return `message_id`, of any user; None where there is none."""
    row = (await connection.execute(statements.MESSAGE, {"message": message_id})).first()
    return None if row is None else Message.of_row(row)


async def own_message(connection: AsyncConnection, user_id: str, message_id: str) -> Message:
    row = (await connection.execute(statements.OWN_MESSAGE, {"message": message_id, "user": user_id})).first()
    if row is None:
        raise ChatNotFoundError("Message not found")
    return Message.of_row(row)


async def find_by_idempotency_key(
    connection: AsyncConnection, chat_id: str, key: str | None, role: Role, request_digest: str | None
) -> Message | None:
    """Return the message created under `key`. Raises IdempotencyKeyReusedError: by another call."""
    if key is None:
        return None
    wanted = select(messages).where(messages.c.chat_id == chat_id, messages.c.idempotency_key == key)
    row: Row[Any] | None = (await connection.execute(wanted)).first()
    if row is not None and (row.role != role or is_other_call(row.request_digest, request_digest)):
        raise IdempotencyKeyReusedError
    return None if row is None else Message.of_row(row)


def is_other_call(known: str | None, given: str | None) -> bool:
    """Return whether the digests `known` and `given` are of different calls; False where one is missing."""
    return known is not None and given is not None and known != given


async def _is_in_flight(connection: AsyncConnection, message_id: str | None) -> bool:
    if message_id is None:
        return False
    return (await connection.execute(statements.IS_UNDER_WAY, {"message": message_id})).first() is not None
