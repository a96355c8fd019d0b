"""Turns of a conversation: question and answer at once, regenerated, edited or continued ones.

Nothing is ever overwritten. Another answer is a sibling of the one before, an edited question begins a new
branch, and a continued answer is a sibling that begins with the existing text.
"""

import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.active_answers import ActiveAnswers
from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatTooLargeError, InvalidFieldError
from radixway.chat.messages import (
    AnswerRequest,
    MessageStore,
    WhileBusy,
    find_by_idempotency_key,
    own_chat,
    read_message,
)
from radixway.chat.model_configs import ModelConfigCatalog, ServedModelConfig
from radixway.chat.records import Chat, Message, MessageState, Role
from radixway.chat.schema import messages

_SEEDS = 2**64 - 1
_LIKE = ("sampling_parameters", "system_prompt", "user_profile", "user_response_instructions", "plugins")


@dataclass(frozen=True, slots=True)
class AnswerSpec:
    """The requested model and parameters of an answer; None or missing: as in the answer before."""

    model: str | None
    parameters: dict[str, Any]
    while_busy: WhileBusy
    idempotency_key: str | None = None
    request_digest: str | None = None
    """Digest of the call with that key."""


class ConversationTurns:
    """Writes turns for a user. Chats and messages of other users are not found."""

    def __init__(
        self,
        database: ChatDatabase,
        texts: MessageStore,
        answers: ActiveAnswers,
        models: ModelConfigCatalog,
        *,
        waits_s: float | None,
    ) -> None:
        """`waits_s`: how long an answer may wait for a worker."""
        self._database = database
        self._texts = texts
        self._answers = answers
        self._models = models
        self._waits_s = waits_s

    async def write_turn(
        self,
        user_id: str,
        chat_id: str,
        content: str,
        parent_id: str | None,
        wish: AnswerSpec | None,
        *,
        idempotency_key: str | None = None,
        request_digest: str | None = None,
    ) -> tuple[Message, Message | None]:
        """Write the user's `content`, and an answer in flight if there is a `wish`: both, or neither.

        `parent_id` None: below the end of the thread that is open. Raises ChatNotFoundError,
        InvalidFieldError, ChatBusyError, ChatLimitExceededError, ChatTooLargeError: the chat is full.
        """
        find_parent = partial(_find_parent, parent_id=parent_id)
        return await self._write_turn(
            user_id, chat_id, content, find_parent, wish, idempotency_key, request_digest
        )

    async def edit_question(
        self,
        user_id: str,
        message_id: str,
        content: str,
        wish: AnswerSpec | None,
        *,
        idempotency_key: str | None = None,
        request_digest: str | None = None,
    ) -> tuple[Message, Message | None]:
        """Write other `content` in place of a user's message: a branch of its own, beside the old one."""
        old = await self._texts.find_message(user_id, message_id)
        if old.role is not Role.PROMPTER:
            raise InvalidFieldError("message_id", "only what a user said can be edited", status=400)

        async def keep_parent(_connection: AsyncConnection, _chat: Chat) -> str | None:
            return old.parent_id

        return await self._write_turn(
            user_id, old.chat_id, content, keep_parent, wish, idempotency_key, request_digest
        )

    async def regenerate_answer(self, user_id: str, message_id: str, wish: AnswerSpec) -> Message:
        """Request another answer to a user's message, or beside the answer `message_id`."""
        old = await self._texts.find_message(user_id, message_id)
        if old.role is Role.ASSISTANT and old.parent_id is not None:
            question = self._make_answer_request(old.parent_id, wish, old)
        else:
            question = self._make_answer_request(old.id, wish, None)
        return await self._answers.request_answer(user_id, old.chat_id, question, while_busy=wish.while_busy)

    async def resume_answer(self, user_id: str, message_id: str, wish: AnswerSpec) -> Message:
        """Continue the answer `message_id`, which was stopped, broke off or reached its length, from its end.

        Raises ChatNotFoundError; InvalidFieldError: it is complete, empty, or its workers cannot continue it.
        """
        old = await self._texts.find_message(user_id, message_id)
        if old.role is not Role.ASSISTANT or old.parent_id is None:
            raise InvalidFieldError("message_id", "only answers can be continued", status=400)
        if not old.state.is_final:
            raise InvalidFieldError("message_id", "it is still being answered", status=400)
        if old.state is MessageState.COMPLETE and old.finish_reason != "length":
            raise InvalidFieldError("message_id", "the answer is whole", status=400)
        if not old.content:
            raise InvalidFieldError("message_id", "it has no words to continue; regenerate it", status=400)
        question = self._make_answer_request(old.parent_id, wish, old)
        if any(question.queue == config.compat_hash for config in self._models.pulled()):
            why = "workers that fetch their jobs cannot go on from words; regenerate it"
            raise InvalidFieldError("model", why, status=400)
        question = replace(question, work_parameters=question.work_parameters | {"prefix": old.content})
        return await self._answers.request_answer(user_id, old.chat_id, question, while_busy=wish.while_busy)

    async def _write_turn(
        self,
        user_id: str,
        chat_id: str,
        content: str,
        find_parent: Callable[[AsyncConnection, Chat], Awaitable[str | None]],
        wish: AnswerSpec | None,
        key: str | None,
        request_digest: str | None,
    ) -> tuple[Message, Message | None]:
        answer, question, ended = None, None, list[str]()
        async with self._database.write_transaction() as connection:
            chat = await own_chat(connection, user_id, chat_id, lock=True)
            prompt = await find_by_idempotency_key(connection, chat_id, key, Role.PROMPTER, request_digest)
            if prompt is None:
                parent_id = await find_parent(connection, chat)
                try:
                    prompt = await self._texts.write_prompt(
                        connection, chat, parent_id, content, key, request_digest
                    )
                except ChatTooLargeError as error:
                    raise InvalidFieldError("content", str(error), status=413) from error
            if wish is not None:
                above = None if prompt.parent_id is None else await read_message(connection, prompt.parent_id)
                question = self._make_answer_request(prompt.id, wish, above)
                answer, ended = await self._texts.write_answer(
                    connection, user_id, chat_id, question, while_busy=wish.while_busy
                )
        if question is not None:
            await self._answers.announce_job(question.queue, ended)
        return prompt, answer

    def _make_answer_request(self, parent_id: str, wish: AnswerSpec, like: Message | None) -> AnswerRequest:
        config = self._choose_model(wish.model, like)
        before = {} if like is None else like.work_parameters or {}
        parameters = {name: before.get(name) for name in _LIKE} | wish.parameters
        if "safety_level" in before:
            parameters.setdefault("safety_level", before["safety_level"])
        return AnswerRequest(
            parent_id,
            config.compat_hash,
            config.name,
            {
                "model_config": config.to_shape(),
                **parameters,
                "sampling_parameters": parameters["sampling_parameters"] or {},
                "plugins": parameters["plugins"] or [],
                "do_sample": True,
                "seed": secrets.randbelow(_SEEDS),
                "plugin_max_depth": 4,
            },
            waits_s=self._waits_s,
            idempotency_key=wish.idempotency_key,
            request_digest=wish.request_digest,
        )

    def _choose_model(self, wanted: str | None, like: Message | None) -> ServedModelConfig:
        known = self._models.list_configs()
        if wanted is None:
            wanted = like.model if like is not None else None
        if wanted is None:
            if len(known) != 1:
                names = ", ".join(config.name for config in known[:10]) or "none yet"
                raise InvalidFieldError("model", f"which model is to answer? There are: {names}")
            return known[0]
        config = self._models.find_config(wanted)
        if config is None:
            raise InvalidFieldError("model", f"Model {wanted} not found")
        return config


async def _find_parent(connection: AsyncConnection, chat: Chat, parent_id: str | None) -> str | None:
    """Return the message that a user's text stands below; None: it is the first. Raises InvalidFieldError."""
    wanted = parent_id or chat.active_thread_tail_message_id
    if wanted is None:
        return None
    found = select(messages.c.role).where(messages.c.chat_id == chat.id, messages.c.id == wanted)
    role = (await connection.execute(found)).scalar_one_or_none()
    if role is None:
        raise InvalidFieldError("parent_id", "there is no such message in this chat")
    if role != Role.ASSISTANT:
        raise InvalidFieldError("parent_id", "a user's words stand below an answer; edit the message instead")
    return wanted
