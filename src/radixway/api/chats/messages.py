"""`/chats/{chat}/…`: messages of a chat, and users' opinions of them."""

import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Request, Response
from pydantic import BaseModel, Field

from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.event_stream import ChatEventStream
from radixway.api.chats.request_body import LenientRequestBody
from radixway.chat.feedback import ReportType
from radixway.chat.ids import digest_request
from radixway.chat.messages import AnswerRequest
from radixway.chat.published_shapes import to_message_read
from radixway.chat.records import Message, Role
from radixway.chat.service import ChatService
from radixway.core.config.chat import Level

_MAX_POSITION = 2**64 - 2
"""Seeds go as far as this."""
_Share = Annotated[float, Field(ge=0, le=1)] | None


class PrompterMessage(LenientRequestBody):
    """A user's message."""

    parent_id: str | None = Field(default=None, max_length=64)
    content: str = Field(min_length=1)


class SamplingParameters(LenientRequestBody):
    """Parameters of sampling."""

    top_k: int | None = Field(default=None, ge=-1, lt=2**31)
    top_p: _Share = None
    typical_p: _Share = None
    temperature: float | None = Field(default=None, ge=0)
    repetition_penalty: float | None = Field(default=None, gt=0)
    max_new_tokens: int = Field(default=1024, ge=1, lt=2**31)


class PluginEntry(LenientRequestBody):
    """A plugin that may be used."""

    url: str = Field(max_length=2048)
    enabled: bool = True
    plugin_config: dict[str, Any] | None = None
    trusted: bool | None = False


class AssistantMessage(LenientRequestBody):
    """A request for an answer."""

    parent_id: str = Field(max_length=64)
    model_config_name: str = Field(max_length=256)
    sampling_parameters: SamplingParameters = SamplingParameters()
    system_prompt: str | None = None
    user_profile: str | None = None
    user_response_instructions: str | None = None
    plugins: list[PluginEntry] = Field(default=[], max_length=32)
    used_plugin: Any = None
    safety_level: Level | None = None
    """More than what is configured; less counts for nothing."""


class MessageVote(LenientRequestBody):
    """-1, 0 or 1."""

    score: int = Field(ge=-1, le=1)


class NewMessageReport(LenientRequestBody):
    """A complaint about a message."""

    report_type: ReportType
    reason: str = Field(max_length=10_000)


class DraftEvaluation(LenientRequestBody):
    """The drafts that this one is better than."""

    inferior_message_ids: list[str] = Field(max_length=1000)


def message_routes(room: ChatService, who: ChatAuthenticator) -> APIRouter:
    """Build the routes of messages in `room`, their streams, and opinions of them."""
    router = APIRouter(prefix="/chats/{chat_id}", tags=["messages"])
    User = Annotated[str, Depends(who.require_user)]
    Key = Annotated[str | None, Header(alias="idempotency-key", max_length=256)]

    @router.post("/prompter_message")
    async def say(
        chat_id: str, user: User, body: PrompterMessage, idempotency_key: Key = None
    ) -> dict[str, Any]:
        """Add a user's message to `chat_id`, below a finished answer or as the first."""
        message = await room.messages.write_question(
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
        """Ask for an answer: told as JSON that it is pending, or streamed at once where SSE is accepted."""
        config = room.models.find_config(body.model_config_name)
        if config is None:
            raise HTTPException(422, f"Model {body.model_config_name} not found")
        parameters = {
            "model_config": config.to_shape(),
            "sampling_parameters": body.sampling_parameters.model_dump(),
            "do_sample": True,
            "seed": secrets.randbelow(_MAX_POSITION + 1),
            "system_prompt": body.system_prompt,
            "user_profile": body.user_profile,
            "user_response_instructions": body.user_response_instructions,
            "plugins": await room.plugins.prepare_entries(
                [plugin.model_dump() for plugin in body.plugins], str(request.base_url)
            ),
            "plugin_max_depth": 4,
        }
        if body.safety_level is not None:
            parameters["safety_level"] = body.safety_level
        question = AnswerRequest(
            body.parent_id,
            config.compat_hash,
            config.name,
            parameters,
            waits_s=room.config.waits_s,
            idempotency_key=idempotency_key,
            request_digest=digest_body("assistant_message", body, idempotency_key, "used_plugin"),
        )
        message = await room.answers.request_answer(
            user, chat_id, question, while_busy=room.config.while_busy, spare_running=True
        )
        if "text/event-stream" in accept:
            return await _stream_answer(room, message)
        return to_message_read(message)

    @router.get("/messages/{message_id}")
    async def message(chat_id: str, message_id: str, user: User) -> dict[str, Any]:
        """Return the message `message_id`."""
        found = await room.messages.find_message(user, message_id)
        return to_message_read(found, await room.feedback.list_reports(message_id))

    @router.get("/messages/{message_id}/events")
    async def events(
        chat_id: str,
        message_id: str,
        user: User,
        last_event_id: Annotated[str | None, Header(max_length=32)] = None,
        x_radixway_events: Annotated[str, Header(max_length=256)] = "",
    ) -> Response:
        """Stream an answer: all of it, or what came after `last_event_id`.

        `X-Radixway-Events: restart` is from clients that know the event of an answer that begins anew.
        """
        found = await room.messages.find_message(user, message_id)
        if found.role is not Role.ASSISTANT:
            raise HTTPException(400, "Only assistant messages can be streamed.")
        restarts = "restart" in x_radixway_events
        return await _stream_answer(room, found, parse_last_event_id(last_event_id), restarts=restarts)

    @router.post("/messages/{message_id}/votes")
    async def vote(chat_id: str, message_id: str, user: User, body: MessageVote) -> Response:
        """Record the user's opinion of an answer."""
        await room.feedback.vote_answer(user, message_id, body.score)
        return Response()

    @router.post("/messages/{message_id}/reports")
    async def report(chat_id: str, message_id: str, user: User, body: NewMessageReport) -> Response:
        """Record a complaint about a message."""
        await room.feedback.report_message(user, message_id, body.report_type, body.reason)
        return Response()

    @router.post("/messages/{message_id}/message_evals")
    async def evaluate(chat_id: str, message_id: str, user: User, body: DraftEvaluation) -> Response:
        """Record which drafts this one is better than."""
        await room.feedback.rank_answers(user, message_id, body.inferior_message_ids)
        return Response()

    return router


async def _stream_answer(
    room: ChatService, message: Message, after: int = 0, *, restarts: bool = False
) -> Response:
    """What it says after a position; 204 where it has ended and been forgotten."""
    entries = await room.answers.follow_answer(message, after)
    if entries is None:
        return Response(status_code=204)
    return ChatEventStream(room, message, entries, restarts=restarts)


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
