"""`/v1/chats`: lists and changes of chats, search, tags, export and import as JSON lines, and share links."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from starlette.responses import HTMLResponse, StreamingResponse

from radixway.api.chats.accounts import NDJSON, NDJSON_RESPONSES
from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.bodies import ChatChange, ChatFields, NewShareLink
from radixway.api.chats.v1.shapes import (
    ChatPage,
    ChatRead,
    ChatWithMessages,
    ImportedChats,
    MessageRead,
    SearchHitRead,
    SearchResultsRead,
    SharedMessage,
    SharedThread,
    ShareRead,
    ShareWithToken,
    TagCount,
    ThreadRead,
)
from radixway.api.chats.v1.shared_page import HEADERS, render_shared_page
from radixway.chat import threads
from radixway.chat.import_export import encode_chat, to_portable_chat
from radixway.chat.records import Chat
from radixway.chat.service import ChatService
from radixway.core.http import LazyRouter

Id = Annotated[str, Path(max_length=64, pattern=r"^[^\x00]*$")]
QueryId = Annotated[str | None, Query(max_length=64, pattern=r"^[^\x00]*$")]


def chat_routes(service: ChatService, auth: ChatAuthenticator) -> APIRouter:
    """Build lists of chats, and single ones, of `service`."""
    router = LazyRouter(prefix="/v1/chats", tags=["v1 chats"])
    User = Annotated[str, Depends(auth.require_user)]

    async def changed(user: str, chat_id: str, given: dict[str, Any]) -> ChatRead:
        tags = given.pop("tags", None)
        if tags is not None:
            await service.tags.set_tags(user, chat_id, tags)
        await service.chats.update_chat(user, chat_id, **given)
        return ChatRead.from_record(
            await service.chats.find_chat(user, chat_id),
            (await service.tags.tags_of_chats([chat_id]))[chat_id],
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
        page = await service.chats.list_chats(
            user, limit=limit, after=after, before=before, hidden=hidden, archived=archived, tag=tag
        )
        tags = await service.tags.tags_of_chats([chat.id for chat in page.chats])
        read = [ChatRead.from_record(chat, tags[chat.id]) for chat in page.chats]
        return ChatPage(chats=read, next=page.next, previous=page.prev)

    @router.post("", status_code=201)
    async def create(user: User, body: ChatFields) -> ChatRead:
        """Create a chat."""
        chat = await service.chats.create_chat(user)
        return await changed(user, chat.id, body.model_dump(exclude_none=True))

    @router.get("/{chat_id}")
    async def chat(chat_id: Id, user: User) -> ChatWithMessages:
        """Return `chat_id` with all its messages."""
        found = await service.chats.find_chat(user, chat_id)
        tags = (await service.tags.tags_of_chats([chat_id]))[chat_id]
        messages = await service.messages.list_messages(user, chat_id)
        families = threads.find_siblings(messages)
        read = [MessageRead.from_record(message, families[message.id]) for message in messages]
        return ChatWithMessages.from_record(found, tags, messages=read)

    @router.patch("/{chat_id}")
    async def change(chat_id: Id, user: User, body: ChatChange) -> ChatRead:
        """Change the given fields of `chat_id`."""
        given = body.model_dump(exclude_none=True)
        tail = given.pop("tail_id", None)
        if tail is not None:
            if (await service.messages.find_message(user, tail)).chat_id != chat_id:
                raise HTTPException(404, "Message not found")
            given["active_thread_tail_message_id"] = tail
        return await changed(user, chat_id, given)

    @router.delete("/{chat_id}", status_code=204)
    async def delete(chat_id: Id, user: User) -> Response:
        """Delete `chat_id` with all that belongs to it; answers under way end."""
        await service.answers.cancel_chat(user, chat_id)
        await service.chats.delete_chat(user, chat_id)
        return Response(status_code=204)

    @router.get("/{chat_id}/thread")
    async def thread(chat_id: Id, user: User, through: QueryId = None) -> ThreadRead:
        """The thread that is open, or the newest one through a message."""
        found = await service.chats.find_chat(user, chat_id)
        messages = await service.messages.list_messages(user, chat_id)
        tail = found.active_thread_tail_message_id
        if through is not None:
            tail = threads.find_newest_tail(messages, through)
        if tail is None or not (thread := threads.build_thread(messages, tail)):
            raise HTTPException(404, "Message not found")
        families = threads.find_siblings(messages)
        read = [MessageRead.from_record(message, families[message.id]) for message in thread]
        return ThreadRead(tail_id=tail, messages=read)

    return router


def search_routes(service: ChatService, auth: ChatAuthenticator) -> APIRouter:
    """Build search and tags of `service`."""
    router = LazyRouter(prefix="/v1/chats", tags=["v1 chats"])
    User = Annotated[str, Depends(auth.require_user)]

    @router.get("/search")
    async def search(
        user: User,
        q: Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00]*$")],
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        before: QueryId = None,
        chat: QueryId = None,
    ) -> SearchResultsRead:
        """Messages that contain every word of `q`, newest first."""
        hits = await service.search.search_messages(user, q, limit=limit, before=before, chat_id=chat)
        read = [
            SearchHitRead(
                message=MessageRead.from_record(hit.message), chat_title=hit.chat_title, snippet=hit.snippet
            )
            for hit in hits
        ]
        return SearchResultsRead(hits=read, next=hits[-1].message.id if len(hits) == limit else None)

    @router.get("/tags")
    async def tags(user: User) -> list[TagCount]:
        """The user's tags, and how many chats have each."""
        return [
            TagCount(tag=tag, chats=count) for tag, count in (await service.tags.count_tags(user)).items()
        ]

    return router


_TEXT = NDJSON_RESPONSES[200]
_CHATS_PER_PAGE = 100


def export_import_routes(service: ChatService, auth: ChatAuthenticator) -> APIRouter:
    """Build export to and import from JSON lines for `service`."""
    router = LazyRouter(prefix="/v1/chats", tags=["v1 moving"])
    User = Annotated[str, Depends(auth.require_user)]

    async def lines(user: str, chats: list[Chat]) -> bytes:
        tags = await service.tags.tags_of_chats([chat.id for chat in chats])
        parts = [
            encode_chat(
                to_portable_chat(chat, tags[chat.id], await service.messages.list_messages(user, chat.id))
            )
            for chat in chats
        ]
        return b"".join(parts)

    async def everything(user: str) -> AsyncIterator[bytes]:
        after: str | None = None
        while True:
            page = await service.chats.list_chats(user, limit=_CHATS_PER_PAGE, after=after, hidden=True)
            yield await lines(user, page.chats)
            if page.next is None:
                return
            after = page.next

    @router.get("/export", responses=NDJSON_RESPONSES, response_class=Response)
    async def export(user: User) -> Response:
        """Export all chats of the user, hidden and archived ones included."""
        return StreamingResponse(everything(user), media_type=NDJSON)

    @router.post("/import", status_code=201, openapi_extra={"requestBody": _TEXT | {"required": True}})
    async def take_in(user: User, request: Request) -> ImportedChats:
        """Import the chats of a file, all of them or none, under new ids."""
        await service.accounts.find_user(user)
        return ImportedChats(chats=await service.importer.import_chats(user, await request.body()))

    @router.get("/{chat_id}/export", responses=NDJSON_RESPONSES, response_class=Response)
    async def export_one(chat_id: Id, user: User) -> Response:
        """Export `chat_id`, with all its branches."""
        chat = await service.chats.find_chat(user, chat_id)
        return Response(await lines(user, [chat]), media_type=NDJSON)

    return router


_PRIVATE = {"cache-control": "no-store", "referrer-policy": "no-referrer", "x-robots-tag": "noindex"}


def share_routes(service: ChatService, auth: ChatAuthenticator) -> APIRouter:
    """Build share links of `service`, and the threads that they open."""
    router = LazyRouter(prefix="/v1/chats", tags=["v1 shares"])
    User = Annotated[str, Depends(auth.require_user)]

    @router.get("/shared/{token}", response_model=SharedThread)
    async def shared(
        token: Annotated[str, Path(max_length=64)], request: Request, response: Response
    ) -> SharedThread | Response:
        """Return the thread that `token` opens, as it was shared; a page for browsers. Needs no login."""
        response.headers.update(_PRIVATE)
        link, messages = await service.share_links.open_link(token)
        read = [SharedMessage.model_validate(record) for record in messages]
        thread = SharedThread(
            title=link.title, shared_at=datetime.fromtimestamp(link.created_at, UTC), messages=read
        )
        if "text/html" not in request.headers.get("accept", ""):
            return thread
        page = render_shared_page(thread, request.headers.get("accept-language", ""))
        return HTMLResponse(page, headers=_PRIVATE | HEADERS)

    @router.post("/{chat_id}/shares", status_code=201)
    async def share(chat_id: Id, user: User, body: NewShareLink) -> ShareWithToken:
        """Create a link to a thread of `chat_id`; its token is shown once."""
        record, token = await service.share_links.create_link(
            user, chat_id, body.message_id, body.expires_in_s
        )
        link = dict(ShareRead.model_validate(record))
        return ShareWithToken(**link, token=token, path=f"/v1/chats/shared/{token}")

    @router.get("/{chat_id}/shares")
    async def shares(chat_id: Id, user: User) -> list[ShareRead]:
        """List the links of `chat_id` that still open something."""
        return [
            ShareRead.model_validate(record) for record in await service.share_links.list_links(user, chat_id)
        ]

    @router.delete("/{chat_id}/shares/{share_id}", status_code=204)
    async def revoke(chat_id: Id, share_id: Id, user: User) -> Response:
        """Revoke the link `share_id`."""
        await service.share_links.revoke_link(user, chat_id, share_id)
        return Response(status_code=204)

    return router
