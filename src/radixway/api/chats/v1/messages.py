"""`/v1/chats/{chat}/messages`: questions with their answers, and other answers than the first."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Request, Response

from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.bodies import AnswerOptions, EditedMessage, NewMessage
from radixway.api.chats.chats import digest_body, parse_last_event_id
from radixway.api.chats.event_stream import ChatEventStream
from radixway.api.chats.v1.chats import Id
from radixway.api.chats.v1.shapes import MessageRead, QueuePlaceRead, TurnRead
from radixway.chat import records
from radixway.chat.conversation_turns import AnswerSpec
from radixway.chat.records import Role
from radixway.chat.service import ChatService
from radixway.core.http import LazyRouter

_STREAMS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}


def message_routes(service: ChatService, auth: ChatAuthenticator) -> APIRouter:
    """Build messages and their answers for `service`."""
    router = LazyRouter(prefix="/v1/chats/{chat_id}/messages", tags=["v1 messages"])
    User = Annotated[str, Depends(auth.require_user)]
    Key = Annotated[str | None, Header(alias="idempotency-key", max_length=250, pattern=r"^[^\x00]*$")]

    async def find(user: User, chat_id: Id, message_id: Id) -> records.Message:
        message = await service.messages.find_message(user, message_id)
        if message.chat_id != chat_id:
            raise HTTPException(404, "Message not found")
        return message

    Found = Annotated[records.Message, Depends(find)]

    async def build_spec(
        request: Request, body: AnswerOptions, key: str | None, digest: str | None
    ) -> AnswerSpec:
        while_busy, parameters = body.while_busy or service.config.while_busy, body.given_parameters()
        if "plugins" in parameters:
            base = str(request.base_url)
            parameters["plugins"] = await service.plugins.prepare_entries(parameters["plugins"], base)
        return AnswerSpec(
            body.model, parameters, while_busy, None if key is None else f"{key}:answer", digest
        )

    async def reply(
        user: str, body: AnswerOptions, question: records.Message | None, answer: records.Message | None
    ) -> Any:
        """The answer in the way that was asked for, behind its question where that is new."""
        if answer is None:
            assert question is not None
            return TurnRead(message=MessageRead.from_record(question), answer=None)
        if body.reply == "stream":
            entries = await service.answers.follow_answer(answer)
            if entries is None:
                raise HTTPException(409, "This answer ended too long ago to be streamed; read the message")
            stream = ChatEventStream(service, answer, entries)
            stream.headers["x-message-id"] = answer.id
            return stream
        if body.reply == "whole":
            entries = await service.answers.follow_answer(answer)
            if entries is not None:
                async for _ in entries:
                    pass
            answer = await service.messages.find_message(user, answer.id)
        read = MessageRead.from_record(answer)
        if question is None:
            return read
        return TurnRead(message=MessageRead.from_record(question), answer=read)

    @router.post("", responses=_STREAMS, response_model=TurnRead, status_code=200)
    async def say(
        chat_id: Id, user: User, request: Request, body: NewMessage, idempotency_key: Key = None
    ) -> Any:
        """Add a user's message, and ask for its answer."""
        key, digest = idempotency_key, digest_body("say", body, idempotency_key, "reply")
        spec = await build_spec(request, body, key, digest) if body.answer else None
        question, answer = await service.turns.write_turn(
            user, chat_id, body.content, body.parent_id, spec, idempotency_key=key, request_digest=digest
        )
        return await reply(user, body, question, answer)

    @router.get("/{message_id}")
    async def message(found: Found) -> MessageRead:
        """Return `message_id`; of a pending answer, with its position in its queue."""
        place = await service.queue_pace.estimate_wait(found)
        read = MessageRead.from_record(found)
        read.queue = None if place is None else QueuePlaceRead(**asdict(place))
        return read

    @router.get("/{message_id}/events", responses=_STREAMS, response_class=Response)
    async def events(
        answer: Found, last_event_id: Annotated[str | None, Header(max_length=32)] = None
    ) -> Response:
        """Stream an answer: all of it, or what came after `last_event_id`; 204 long after its end."""
        if answer.role is not Role.ASSISTANT:
            raise HTTPException(400, "Only answers can be streamed")
        entries = await service.answers.follow_answer(answer, parse_last_event_id(last_event_id))
        return Response(status_code=204) if entries is None else ChatEventStream(service, answer, entries)

    @router.post("/{message_id}/stop")
    async def stop(found: Found, user: User) -> MessageRead:
        """End the answer `message_id`; its words so far stay. One that has ended stays as it is."""
        await service.answers.cancel_answer(user, found.id)
        return MessageRead.from_record(await service.messages.find_message(user, found.id))

    @router.post("/{message_id}/regenerate", responses=_STREAMS, response_model=MessageRead)
    async def regenerate(
        found: Found, user: User, request: Request, body: AnswerOptions, idempotency_key: Key = None
    ) -> Any:
        """Ask for another answer, beside `message_id`."""
        digest = digest_body(f"regenerate {found.id}", body, idempotency_key, "reply")
        spec = await build_spec(request, body, idempotency_key, digest)
        return await reply(user, body, None, await service.turns.regenerate_answer(user, found.id, spec))

    @router.post("/{message_id}/continue", responses=_STREAMS, response_model=MessageRead)
    async def resume(
        found: Found, user: User, request: Request, body: AnswerOptions, idempotency_key: Key = None
    ) -> Any:
        """Continue `message_id`, an answer that ended too soon, beside the one there is."""
        digest = digest_body(f"continue {found.id}", body, idempotency_key, "reply")
        spec = await build_spec(request, body, idempotency_key, digest)
        return await reply(user, body, None, await service.turns.resume_answer(user, found.id, spec))

    @router.post("/{message_id}/edit", responses=_STREAMS, response_model=TurnRead)
    async def edit(
        found: Found, user: User, request: Request, body: EditedMessage, idempotency_key: Key = None
    ) -> Any:
        """Replace a user's words in `message_id` as a branch of its own, and ask for their answer."""
        key, digest = idempotency_key, digest_body(f"edit {found.id}", body, idempotency_key, "reply")
        spec = await build_spec(request, body, key, digest) if body.answer else None
        question, answer = await service.turns.edit_question(
            user, found.id, body.content, spec, idempotency_key=key, request_digest=digest
        )
        return await reply(user, body, question, answer)

    return router
