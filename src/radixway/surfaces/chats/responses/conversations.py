"""`/v1/conversations`: what responses are added to one after another."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from msgspec import Meta

from radixway.chat.conversations import Conversation, Conversations
from radixway.chat.errors import NotFound
from radixway.chat.messages import Messages
from radixway.chat.records import Role
from radixway.chat.responses import Items
from radixway.surfaces.chats.responses import ids, items
from radixway.surfaces.chats.responses.asking import check_metadata, check_text
from radixway.surfaces.chats.responses.errors import not_found
from radixway.surfaces.chats.responses.owners import Owner, Owners
from radixway.surfaces.chats.responses.room import ResponseRoom
from radixway.surfaces.chats.responses.routes import ITEMS, METADATA, body_of, query_of
from radixway.surfaces.chats.responses.shapes import output_items
from radixway.surfaces.wires.responses_items import messages_of
from radixway.surfaces.wires.sampling import wrong
from radixway.web import read_json

_Given = Annotated[list[Any], Meta(max_length=20)]


class New(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What a conversation begins with."""

    items: _Given | None = None
    metadata: Any = None


class Change(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is to be changed of one."""

    metadata: Any


class Added(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What is added to one."""

    items: _Given


_new = msgspec.json.Decoder(New)
_change = msgspec.json.Decoder(Change)
_added = msgspec.json.Decoder(Added)


class _Items:
    """The items of conversations, by the messages that they belong to."""

    def __init__(self, room: ResponseRoom) -> None:
        self._room = room

    async def of(self, owner: Owner, found: Conversation) -> list[tuple[str, Items]]:
        """By message, the oldest first."""
        tail = found.chat.active_thread_tail_message_id
        thread = [] if tail is None else await self._room.chats.messages.thread(tail)
        questions, _ = await self._room.kept.items_of([message.id for message in thread])
        told = []
        for message in thread:
            if message.role is Role.PROMPTER:
                told.append((message.id, questions.get(message.id, [])))
            elif (kept := await self._room.kept.current(message.id)) is not None:
                told.append((message.id, output_items(kept)))
        return told


def conversation_routes(room: ResponseRoom, owners: Owners) -> APIRouter:
    """Conversations and their items."""
    router = APIRouter(prefix="/v1/conversations", tags=["conversations"])
    kept, of_items = Conversations(room.chats.database, room.chats.clock), _Items(room)
    Whose = Annotated[Owner, Depends(owners.of)]

    async def find(owner: Owner, conversation_id: str) -> Conversation:
        try:
            return await kept.find(owner.user_id, ids.inner(ids.CONVERSATION, conversation_id))
        except NotFound:
            raise not_found("Conversation", conversation_id, "conversation_id") from None

    def texts_of(owner: Owner) -> Messages:
        return room.chats.messages if owner.is_person else room.unmetered

    async def add(owner: Owner, found: Conversation, given: Items) -> None:
        await kept.add(owner.user_id, found.chat.id, items.words(given), given, texts_of(owner))

    @router.post("", openapi_extra=body_of(items=ITEMS, metadata=METADATA))
    async def create(request: Request, owner: Whose) -> Response:
        """A new one, with items where some are given."""
        body = read_json(_new, await request.body() or b"{}")
        given = _checked(body.items or [])
        made = await kept.create(owner.user_id, _labels(body.metadata))
        if given:
            await add(owner, made, given)
        return JSONResponse(_shape(made))

    @router.get("/{conversation_id}")
    async def read(conversation_id: str, owner: Whose) -> Response:
        """One, without its items."""
        return JSONResponse(_shape(await find(owner, conversation_id)))

    @router.post("/{conversation_id}", openapi_extra=body_of(metadata=METADATA))
    async def change(conversation_id: str, request: Request, owner: Whose) -> Response:
        """Other metadata."""
        labels = _labels(read_json(_change, await request.body()).metadata)
        found = await find(owner, conversation_id)
        return JSONResponse(_shape(await kept.label(owner.user_id, found.chat.id, labels)))

    @router.delete("/{conversation_id}")
    async def remove(conversation_id: str, owner: Whose) -> Response:
        """It is gone with its responses; those under way end first."""
        found = await find(owner, conversation_id)
        await room.chats.answers.cancel_chat(owner.user_id, found.chat.id)
        await kept.delete(owner.user_id, found.chat.id)
        return JSONResponse({"id": conversation_id, "object": "conversation.deleted", "deleted": True})

    @router.post("/{conversation_id}/items", openapi_extra=body_of(items=ITEMS))
    async def add_items(conversation_id: str, request: Request, owner: Whose) -> Response:
        """Items at its end."""
        given = _checked(read_json(_added, await request.body()).items)
        if not given:
            raise wrong("items", "is empty", code="missing_field")
        await add(owner, await find(owner, conversation_id), given)
        return JSONResponse(items.page(given, {"order": "asc", "limit": "100"}))

    @router.get("/{conversation_id}/items")
    async def list_items(conversation_id: str, request: Request, owner: Whose) -> Response:
        """What was said in it, the newest first."""
        told = await of_items.of(owner, await find(owner, conversation_id))
        return JSONResponse(items.page([item for _, some in told for item in some], query_of(request)))

    @router.get("/{conversation_id}/items/{item_id}")
    async def read_item(conversation_id: str, item_id: str, owner: Whose) -> Response:
        """One of them."""
        for _, some in await of_items.of(owner, await find(owner, conversation_id)):
            for item in some:
                if item["id"] == item_id:
                    return JSONResponse(item)
        raise not_found("Item", item_id, "item_id")

    @router.delete("/{conversation_id}/items/{item_id}")
    async def remove_item(conversation_id: str, item_id: str, owner: Whose) -> Response:
        """An item that was added; those of answers go with their responses."""
        found = await find(owner, conversation_id)
        for message_id, some in await of_items.of(owner, found):
            left = [item for item in some if item["id"] != item_id]
            if len(left) == len(some):
                continue
            questions, _ = await room.kept.items_of([message_id])
            if message_id not in questions:
                raise wrong("item_id", "is part of an answer: delete its response", code="unsupported")
            await kept.replace(message_id, left)
            return JSONResponse(_shape(found))
        raise not_found("Item", item_id, "item_id")

    return router


def _checked(given: list[Any]) -> Items:
    """Raises BadBody (400)."""
    check_text(given, "items")
    messages_of(given, "items")
    return items.kept(given)


def _labels(metadata: Any) -> dict[str, str]:
    check_text(metadata, "metadata")
    return check_metadata(metadata)


def _shape(found: Conversation) -> dict[str, Any]:
    return {
        "id": ids.told(ids.CONVERSATION, found.chat.id),
        "object": "conversation",
        "created_at": int(found.chat.created_at),
        "metadata": found.labels,
    }
