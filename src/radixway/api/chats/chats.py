"""`/chats`: the published routes of chats, their messages, and users' opinions of them."""

import base64
import binascii
import secrets
from typing import Annotated, Any

import fastapi
from fastapi import APIRouter, Depends, Header, HTTPException, Query, Request, Response
from pydantic import BaseModel

from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.bodies import (
    AssistantMessage,
    ChatUpdate,
    DraftEvaluation,
    MessageVote,
    NewMessageReport,
    PrompterMessage,
)
from radixway.api.chats.event_stream import ChatEventStream
from radixway.chat.ids import digest_request
from radixway.chat.messages import AnswerRequest
from radixway.chat.published_shapes import to_chat_list_read, to_chat_read, to_message_read
from radixway.chat.records import Message, Role
from radixway.chat.service import ChatService
from radixway.core.http import LazyRouter

_MAX_SEED = 2**64 - 2
_PARAMETERS = {"sampling_parameters", "system_prompt", "user_profile", "user_response_instructions"}


def message_routes(service: ChatService, auth: ChatAuthenticator) -> APIRouter:
    """Build the routes of messages in `service`, their streams, and opinions of them."""
    router = LazyRouter(prefix="/chats/{chat_id}", tags=["messages"])
    User = Annotated[str, Depends(auth.require_user)]
    Key = Annotated[str | None, Header(alias="idempotency-key", max_length=256)]

    @router.post("/prompter_message")
    async def say(
        chat_id: str, user: User, body: PrompterMessage, idempotency_key: Key = None
    ) -> dict[str, Any]:
        """Add a user's message to `chat_id`, below a finished answer or as the first."""
        message = await service.messages.write_question(
            user,
            chat_id,
            body.parent_id,
            body.content,
            idempotency_key=idempotency_key,
            request_digest=digest_body("prompter_message", body, idempotency_key),
        )
        return to_message_read(message)

    @router.post("/assistant_message")
    async def answer(
        chat_id: str,
        user: User,
        body: AssistantMessage,
        request: Request,
        idempotency_key: Key = None,
        accept: Annotated[str, Header()] = "",
    ) -> Any:
        """Ask for an answer: a pending message as JSON, or a stream where the client accepts SSE."""
        config = service.models.find_config(body.model_config_name)
        if config is None:
            raise HTTPException(422, f"Model {body.model_config_name} not found")
        plugins = [plugin.model_dump() for plugin in body.plugins]
        parameters = body.model_dump(include=_PARAMETERS) | {
            "model_config": config.to_shape(),
            "do_sample": True,
            "seed": secrets.randbelow(_MAX_SEED + 1),
            "plugins": await service.plugins.prepare_entries(plugins, str(request.base_url)),
            "plugin_max_depth": 4,
        }
        if body.safety_level is not None:
            parameters["safety_level"] = body.safety_level
        question = AnswerRequest(
            body.parent_id,
            config.compat_hash,
            config.name,
            parameters,
            waits_s=service.config.waits_s,
            idempotency_key=idempotency_key,
            request_digest=digest_body("assistant_message", body, idempotency_key, "used_plugin"),
        )
        message = await service.answers.request_answer(
            user, chat_id, question, while_busy=service.config.while_busy, spare_running=True
        )
        if "text/event-stream" in accept:
            return await _stream_answer(service, message)
        return to_message_read(message)

    @router.get("/messages/{message_id}")
    async def message(chat_id: str, message_id: str, user: User) -> dict[str, Any]:
        """Return the message `message_id`."""
        found = await service.messages.find_message(user, message_id)
        return to_message_read(found, await service.feedback.list_reports(message_id))

    @router.get("/messages/{message_id}/events")
    async def events(
        chat_id: str,
        message_id: str,
        user: User,
        last_event_id: Annotated[str | None, Header(max_length=32)] = None,
        x_radixway_events: Annotated[str, Header(max_length=256)] = "",
    ) -> Response:
        """Stream an answer: all of it, or what came after `last_event_id`.

        `X-Radixway-Events: restart` is from clients that know the event of a restarted answer.
        """
        found = await service.messages.find_message(user, message_id)
        if found.role is not Role.ASSISTANT:
            raise HTTPException(400, "Only assistant messages can be streamed.")
        restarts = "restart" in x_radixway_events
        return await _stream_answer(service, found, parse_last_event_id(last_event_id), restarts=restarts)

    @router.post("/messages/{message_id}/votes")
    async def vote(chat_id: str, message_id: str, user: User, body: MessageVote) -> Response:
        """Record the user's opinion of an answer."""
        await service.feedback.vote_answer(user, message_id, body.score)
        return Response()

    @router.post("/messages/{message_id}/reports")
    async def report(chat_id: str, message_id: str, user: User, body: NewMessageReport) -> Response:
        """Record a complaint about a message."""
        await service.feedback.report_message(user, message_id, body.report_type, body.reason)
        return Response()

    @router.post("/messages/{message_id}/message_evals")
    async def evaluate(chat_id: str, message_id: str, user: User, body: DraftEvaluation) -> Response:
        """Record which drafts this one is better than."""
        await service.feedback.rank_answers(user, message_id, body.inferior_message_ids)
        return Response()

    return router


async def _stream_answer(
    service: ChatService, message: Message, after: int = 0, *, restarts: bool = False
) -> Response:
    entries = await service.answers.follow_answer(message, after)
    if entries is None:
        return Response(status_code=204)
    return ChatEventStream(service, message, entries, restarts=restarts)


def digest_body(call: str, body: BaseModel, key: str | None, *exclude: str) -> str | None:
    """Return a digest of `call` and `body`, to recognise a repeat of an idempotency `key`; None without
    `key`.

    `exclude`: fields that say nothing of what is asked. Those at their defaults count as not given, so that
    calls can be repeated across an update that adds one.
    """
    if key is None:
        return None
    return digest_request(call, body.model_dump(mode="json", exclude=set(exclude), exclude_defaults=True))


def parse_last_event_id(last_event_id: str | None) -> int:
    """Return the position that `last_event_id` names; 0 without one. Raises HTTPException."""
    if last_event_id is None or not last_event_id.strip():
        return 0
    if not last_event_id.strip().isdecimal():
        raise HTTPException(400, "Last-Event-ID must be the id of an event of this stream")
    return int(last_event_id)


def chat_routes(service: ChatService, auth: ChatAuthenticator) -> APIRouter:
    """Build the routes of chats in `service`, for the users that `auth` authenticates."""
    router = LazyRouter(prefix="/chats", tags=["chats"])
    User = Annotated[str, Depends(auth.require_user)]

    @router.get("")
    async def chats(
        user: User,
        include_hidden: bool = False,
        limit: Annotated[int, Query(gt=0, le=100)] = 10,
        after: Annotated[str | None, Query(max_length=256)] = None,
        before: Annotated[str | None, Query(max_length=256)] = None,
    ) -> dict[str, Any]:
        """A page of the user's chats, newest first."""
        if after is not None and before is not None:
            raise HTTPException(400, "Cannot specify both after and before.")
        page = await service.chats.list_chats(
            user,
            limit=limit,
            after=_decode_cursor(after),
            before=_decode_cursor(before),
            hidden=include_hidden,
        )
        return {
            "chats": [to_chat_list_read(chat) for chat in page.chats],
            "next": _encode_cursor(page.next),
            "prev": _encode_cursor(page.prev),
        }

    @router.post("")
    async def create(user: User, body: Annotated[Any, fastapi.Body()]) -> dict[str, Any]:
        """A new chat. The body says nothing: `{}` or `""`."""
        return to_chat_list_read(await service.chats.create_chat(user))

    @router.put("/hide_all")
    async def hide_all(user: User) -> None:
        """Hide every chat."""
        await service.chats.hide_all_chats(user)

    @router.get("/{chat_id}")
    async def chat(chat_id: str, user: User) -> dict[str, Any]:
        """Return the chat `chat_id` with all its messages."""
        found = await service.chats.find_chat(user, chat_id)
        reports = await service.feedback.list_chat_reports(chat_id)
        return to_chat_read(found, await service.messages.list_messages(user, chat_id), reports)

    @router.put("/{chat_id}")
    async def update(chat_id: str, user: User, body: ChatUpdate) -> None:
        """Change the given fields of `chat_id`."""
        given = body.model_dump(exclude_none=True)
        if (tail := given.get("active_thread_tail_message_id")) is not None:
            message = await service.messages.find_message(user, tail)
            if message.chat_id != chat_id:
                raise HTTPException(404, "Message not found")
        await service.chats.update_chat(user, chat_id, **given)

    @router.delete("/{chat_id}")
    async def delete(chat_id: str, user: User) -> Response:
        """Delete `chat_id` with all that belongs to it."""
        await service.answers.cancel_chat(user, chat_id)
        await service.chats.delete_chat(user, chat_id)
        return Response()

    return router


def _encode_cursor(chat_id: str | None) -> str | None:
    return None if chat_id is None else base64.b64encode(chat_id.encode()).decode()


def _decode_cursor(cursor: str | None) -> str | None:
    if cursor is None:
        return None
    try:
        chat_id = base64.b64decode(cursor, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        chat_id = "\x00"
    if "\x00" in chat_id:  # which PostgreSQL cannot even be asked for
        raise HTTPException(400, "Invalid cursor")
    return chat_id
