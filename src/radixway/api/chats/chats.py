"""`/chats`: lists of chats, and what they are called."""

import base64
import binascii
from typing import Annotated, Any

import fastapi
from fastapi import APIRouter, Depends, HTTPException, Query, Response
from pydantic import Field

from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.request_body import LenientRequestBody
from radixway.chat.published_shapes import to_chat_list_read, to_chat_read
from radixway.chat.service import ChatService


class ChatUpdate(LenientRequestBody):
    """Changes to a chat."""

    title: str | None = Field(default=None, max_length=100)
    hidden: bool | None = None
    allow_data_use: bool | None = None
    active_thread_tail_message_id: str | None = Field(default=None, max_length=64)


def chat_routes(room: ChatService, who: ChatAuthenticator) -> APIRouter:
    """Build the routes of chats in `room`, for the users that `who` authenticates."""
    router = APIRouter(prefix="/chats", tags=["chats"])
    User = Annotated[str, Depends(who.require_user)]

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
        page = await room.chats.list_chats(
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
        return to_chat_list_read(await room.chats.create_chat(user))

    @router.put("/hide_all")
    async def hide_all(user: User) -> None:
        """Hide every chat."""
        await room.chats.hide_all_chats(user)

    @router.get("/{chat_id}")
    async def chat(chat_id: str, user: User) -> dict[str, Any]:
        """Return the chat `chat_id` with all its messages."""
        found = await room.chats.find_chat(user, chat_id)
        reports = await room.feedback.list_chat_reports(chat_id)
        return to_chat_read(found, await room.messages.list_messages(user, chat_id), reports)

    @router.put("/{chat_id}")
    async def update(chat_id: str, user: User, body: ChatUpdate) -> None:
        """Change the given fields of `chat_id`."""
        given = {name: value for name, value in body.model_dump().items() if value is not None}
        if (tail := given.get("active_thread_tail_message_id")) is not None:
            message = await room.messages.find_message(user, tail)
            if message.chat_id != chat_id:
                raise HTTPException(404, "Message not found")
        await room.chats.update_chat(user, chat_id, **given)

    @router.delete("/{chat_id}")
    async def delete(chat_id: str, user: User) -> Response:
        """Delete `chat_id` with all that belongs to it."""
        await room.answers.cancel_chat(user, chat_id)
        await room.chats.delete_chat(user, chat_id)
        return Response()

    return router


def _encode_cursor(chat_id: str | None) -> str | None:
    return None if chat_id is None else base64.b64encode(chat_id.encode()).decode()


def _decode_cursor(cursor: str | None) -> str | None:
    """Raises HTTPException."""
    if cursor is None:
        return None
    try:
        chat_id = base64.b64decode(cursor, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        chat_id = "\x00"
    if "\x00" in chat_id:  # which PostgreSQL cannot even be asked for
        raise HTTPException(400, "Invalid cursor")
    return chat_id
