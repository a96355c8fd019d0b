"""`/v1/chats/search` and `/v1/chats/tags`."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query

from radixway.chat.room import ChatService
from radixway.surfaces.chats.v1.chats import QueryId
from radixway.surfaces.chats.v1.shapes import MessageRead, SearchHitRead, SearchResultsRead, TagCount
from radixway.surfaces.chats.who import ChatAuthenticator


def search_routes(room: ChatService, who: ChatAuthenticator) -> APIRouter:
    """Where things are."""
    router = APIRouter(prefix="/v1/chats", tags=["v1 chats"])
    User = Annotated[str, Depends(who.user)]

    @router.get("/search")
    async def search(
        user: User,
        q: Annotated[str, Query(min_length=1, max_length=200, pattern=r"^[^\x00]*$")],
        limit: Annotated[int, Query(ge=1, le=100)] = 20,
        before: QueryId = None,
        chat: QueryId = None,
    ) -> SearchResultsRead:
        """Messages that contain every word of `q`, newest first."""
        hits = await room.search.search_messages(user, q, limit=limit, before=before, chat_id=chat)
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
        return [TagCount(tag=tag, chats=count) for tag, count in (await room.tags.count_tags(user)).items()]

    return router
