"""`/v1/chats/{chat}/messages`: questions with their answers, and other answers than the first."""

from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Request, Response

from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.event_stream import ChatEventStream
from radixway.api.chats.messages import digest_body, parse_last_event_id
from radixway.api.chats.v1.bodies import AnswerOptions, EditedMessage, NewMessage
from radixway.api.chats.v1.chats import Id
from radixway.api.chats.v1.shapes import MessageRead, QueuePlaceRead, TurnRead
from radixway.chat import records
from radixway.chat.conversation_turns import AnswerSpec
from radixway.chat.records import Role
from radixway.chat.service import ChatService

_STREAMS: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}
}


def message_routes(room: ChatService, who: ChatAuthenticator) -> APIRouter:
    """Build messages and their answers for `room`."""
    router = APIRouter(prefix="/v1/chats/{chat_id}/messages", tags=["v1 messages"])
    User = Annotated[str, Depends(who.require_user)]
    Key = Annotated[str | None, Header(alias="idempotency-key", max_length=250, pattern=r"^[^\x00]*$")]

    async def found(user: str, chat_id: str, message_id: str) -> records.Message:
        message = await room.messages.find_message(user, message_id)
        if message.chat_id != chat_id:
            raise HTTPException(404, "Message not found")
        return message

    async def wish(request: Request, body: AnswerOptions, key: str | None, digest: str | None) -> AnswerSpec:
        while_busy, parameters = body.while_busy or room.config.while_busy, body.given_parameters()
        if "plugins" in parameters:
            base = str(request.base_url)
            parameters["plugins"] = await room.plugins.prepare_entries(parameters["plugins"], base)
        return AnswerSpec(
            body.model, parameters, while_busy, None if key is None else f"{key}:answer", digest
        )

    async def told(
        user: str, body: AnswerOptions, said: records.Message | None, answer: records.Message
    ) -> Any:
        """The answer in the way that was asked for."""
        if body.reply == "stream":
            entries = await room.answers.follow_answer(answer)
            if entries is None:
                raise HTTPException(409, "This answer ended too long ago to be streamed; read the message")
            stream = ChatEventStream(room, answer, entries)
            stream.headers["x-message-id"] = answer.id
            return stream
        if body.reply == "whole":
            entries = await room.answers.follow_answer(answer)
            if entries is not None:
                async for _ in entries:
                    pass
            answer = await room.messages.find_message(user, answer.id)
        read = MessageRead.from_record(answer)
        return read if said is None else TurnRead(message=MessageRead.from_record(said), answer=read)

    @router.post("", responses=_STREAMS, response_model=TurnRead, status_code=200)
    async def say(
        chat_id: Id, user: User, request: Request, body: NewMessage, idempotency_key: Key = None
    ) -> Any:
        """Add a user's message, and ask for its answer."""
        key, digest = idempotency_key, digest_body("say", body, idempotency_key, "reply")
        wanted = await wish(request, body, key, digest) if body.answer else None
        said, answer = await room.turns.write_turn(
            user,
            chat_id,
            body.content,
            body.parent_id,
            wanted,
            idempotency_key=key,
            request_digest=digest,
        )
        if answer is None:
            return TurnRead(message=MessageRead.from_record(said), answer=None)
        return await told(user, body, said, answer)

    @router.get("/{message_id}")
    async def message(chat_id: Id, message_id: Id, user: User) -> MessageRead:
        """Return `message_id`; of a pending answer, with its position in its queue."""
        asked = await found(user, chat_id, message_id)
        place = await room.queue_pace.estimate_wait(asked)
        read = MessageRead.from_record(asked)
        read.queue = None if place is None else QueuePlaceRead(**asdict(place))
        return read

    @router.get("/{message_id}/events", responses=_STREAMS, response_class=Response)
    async def events(
        chat_id: Id,
        message_id: Id,
        user: User,
        last_event_id: Annotated[str | None, Header(max_length=32)] = None,
    ) -> Response:
        """Stream an answer: all of it, or what came after `last_event_id`; 204 long after its end."""
        answer = await found(user, chat_id, message_id)
        if answer.role is not Role.ASSISTANT:
            raise HTTPException(400, "Only answers can be streamed")
        entries = await room.answers.follow_answer(answer, parse_last_event_id(last_event_id))
        return Response(status_code=204) if entries is None else ChatEventStream(room, answer, entries)

    @router.post("/{message_id}/stop")
    async def stop(chat_id: Id, message_id: Id, user: User) -> MessageRead:
        """End the answer `message_id`; its words so far stay. One that has ended stays as it is."""
        await found(user, chat_id, message_id)
        await room.answers.cancel_answer(user, message_id)
        return MessageRead.from_record(await found(user, chat_id, message_id))

    @router.post("/{message_id}/regenerate", responses=_STREAMS, response_model=MessageRead)
    async def regenerate(
        chat_id: Id,
        message_id: Id,
        user: User,
        request: Request,
        body: AnswerOptions,
        idempotency_key: Key = None,
    ) -> Any:
        """Ask for another answer, beside `message_id`."""
        await found(user, chat_id, message_id)
        digest = digest_body(f"regenerate {message_id}", body, idempotency_key, "reply")
        wanted = await wish(request, body, idempotency_key, digest)
        answer = await room.turns.regenerate_answer(user, message_id, wanted)
        return await told(user, body, None, answer)

    @router.post("/{message_id}/continue", responses=_STREAMS, response_model=MessageRead)
    async def resume(
        chat_id: Id,
        message_id: Id,
        user: User,
        request: Request,
        body: AnswerOptions,
        idempotency_key: Key = None,
    ) -> Any:
        """Continue `message_id`, an answer that ended too soon, beside the one there is."""
        await found(user, chat_id, message_id)
        digest = digest_body(f"continue {message_id}", body, idempotency_key, "reply")
        wanted = await wish(request, body, idempotency_key, digest)
        answer = await room.turns.resume_answer(user, message_id, wanted)
        return await told(user, body, None, answer)

    @router.post("/{message_id}/edit", responses=_STREAMS, response_model=TurnRead)
    async def edit(
        chat_id: Id,
        message_id: Id,
        user: User,
        request: Request,
        body: EditedMessage,
        idempotency_key: Key = None,
    ) -> Any:
        """Replace a user's words in `message_id` as a branch of its own, and ask for their answer."""
        await found(user, chat_id, message_id)
        key, digest = idempotency_key, digest_body(f"edit {message_id}", body, idempotency_key, "reply")
        wanted = await wish(request, body, key, digest) if body.answer else None
        said, answer = await room.turns.edit_question(
            user, message_id, body.content, wanted, idempotency_key=key, request_digest=digest
        )
        if answer is None:
            return TurnRead(message=MessageRead.from_record(said), answer=None)
        return await told(user, body, said, answer)

    return router
