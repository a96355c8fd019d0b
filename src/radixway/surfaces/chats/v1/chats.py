"""`/v1/chats`: chats, listed and changed."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Response

from radixway.chat import branches
from radixway.chat.room import ChatService
from radixway.surfaces.chats.v1.bodies import ChatChange, ChatFields
from radixway.surfaces.chats.v1.shapes import ChatPage, ChatRead, ChatWithMessages, MessageRead, ThreadRead
from radixway.surfaces.chats.who import ChatAuthenticator

Id = Annotated[str, Path(max_length=64, pattern=r"^[^\x00]*$")]
QueryId = Annotated[str | None, Query(max_length=64, pattern=r"^[^\x00]*$")]


def chat_routes(room: ChatService, who: ChatAuthenticator) -> APIRouter:
    """Lists of chats, and single ones."""
    router = APIRouter(prefix="/v1/chats", tags=["v1 chats"])
    User = Annotated[str, Depends(who.user)]

    async def changed(user: str, chat_id: str, given: dict[str, Any]) -> ChatRead:
        tags = given.pop("tags", None)
        if tags is not None:
            await room.tags.set_tags(user, chat_id, tags)
        await room.chats.update_chat(user, chat_id, **given)
        return ChatRead.from_record(
            await room.chats.find_chat(user, chat_id), (await room.tags.tags_of_chats([chat_id]))[chat_id]
        )

    @router.get("")
    async def chats(
        user: User,
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        after: QueryId = None,
        before: QueryId = None,
        hidden: bool = False,
        archived: bool | None = False,
        tag: Annotated[str | None, Query(max_length=50, pattern=r"^[^\x00]*$")] = None,
    ) -> ChatPage:
        """A page of the user's chats, newest first: those in the archive for `archived=true` alone."""
        if after is not None and before is not None:
            raise HTTPException(400, "Only one of after and before can be given")
        page = await room.chats.list_chats(
            user, limit=limit, after=after, before=before, hidden=hidden, archived=archived, tag=tag
        )
        tags = await room.tags.tags_of_chats([chat.id for chat in page.chats])
        read = [ChatRead.from_record(chat, tags[chat.id]) for chat in page.chats]
        return ChatPage(chats=read, next=page.next, previous=page.prev)

    @router.post("", status_code=201)
    async def create(user: User, body: ChatFields) -> ChatRead:
        """A new chat."""
        chat = await room.chats.create_chat(user)
        return await changed(user, chat.id, body.given_fields())

    @router.get("/{chat_id}")
    async def chat(chat_id: Id, user: User) -> ChatWithMessages:
        """A chat with all its messages."""
        found = await room.chats.find_chat(user, chat_id)
        tags = (await room.tags.tags_of_chats([chat_id]))[chat_id]
        return ChatWithMessages.from_records(found, tags, await room.messages.list_messages(user, chat_id))

    @router.patch("/{chat_id}")
    async def change(chat_id: Id, user: User, body: ChatChange) -> ChatRead:
        """Change what is given."""
        given = body.given_fields()
        tail = given.pop("tail_id", None)
        if tail is not None:
            if (await room.messages.find_message(user, tail)).chat_id != chat_id:
                raise HTTPException(404, "Message not found")
            given["active_thread_tail_message_id"] = tail
        return await changed(user, chat_id, given)

    @router.delete("/{chat_id}", status_code=204)
    async def delete(chat_id: Id, user: User) -> Response:
        """With all that belongs to it; answers under way end."""
        await room.answers.cancel_chat(user, chat_id)
        await room.chats.delete_chat(user, chat_id)
        return Response(status_code=204)

    @router.get("/{chat_id}/thread")
    async def thread(chat_id: Id, user: User, through: QueryId = None) -> ThreadRead:
        """The thread that is open, or the newest one through a message."""
        found = await room.chats.find_chat(user, chat_id)
        messages = await room.messages.list_messages(user, chat_id)
        tail = found.active_thread_tail_message_id
        if through is not None:
            tail = branches.find_newest_tail(messages, through)
        if tail is None or not (way := branches.build_thread(messages, tail)):
            raise HTTPException(404, "Message not found")
        families = branches.find_siblings(messages)
        read = [MessageRead.from_record(message, families[message.id]) for message in way]
        return ThreadRead(tail_id=tail, messages=read)

    return router
