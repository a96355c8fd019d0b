"""`/v1/conversations`: conversations to which responses are added one after another."""

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from msgspec import Meta

from radixway.api.chats.responses import ids, items
from radixway.api.chats.responses.errors import not_found_error
from radixway.api.chats.responses.owners import ResponseOwner, ResponseOwners
from radixway.api.chats.responses.request_schema import check_metadata, check_storable_text
from radixway.api.chats.responses.routes import ITEMS, METADATA, openapi_body, query_fields
from radixway.api.chats.responses.service import ResponseService
from radixway.api.chats.responses.shapes import render_output_items
from radixway.api.protocols.request_fields import field_error
from radixway.api.protocols.responses_items import convert_response_items
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.messages import MessageStore
from radixway.chat.records import Role
from radixway.chat.stored_responses import ConversationRecord, ConversationStore, ResponseItems
from radixway.core.http import decode_json

_Given = Annotated[list[Any], Meta(max_length=20)]


class NewConversation(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A conversation to be created."""

    items: _Given | None = None
    metadata: Any = None


class ConversationChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A change of a conversation."""

    metadata: Any


class NewConversationItems(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Items to be added to a conversation."""

    items: _Given


_new = msgspec.json.Decoder(NewConversation)
_change = msgspec.json.Decoder(ConversationChange)
_added = msgspec.json.Decoder(NewConversationItems)


class _ConversationItems:
    """The items of conversations, by the messages that they belong to."""

    def __init__(self, room: ResponseService) -> None:
        self._room = room

    async def items_by_message(
        self, owner: ResponseOwner, found: ConversationRecord
    ) -> list[tuple[str, ResponseItems]]:
        """List the items of `found` by message, the oldest first."""
        tail = found.chat.active_thread_tail_message_id
        thread = [] if tail is None else await self._room.chats.messages.load_thread(tail)
        questions, _ = await self._room.kept.load_items([message.id for message in thread])
        told = []
        for message in thread:
            if message.role is Role.PROMPTER:
                told.append((message.id, questions.get(message.id, [])))
            elif (kept := await self._room.kept.get_response(message.id)) is not None:
                told.append((message.id, render_output_items(kept)))
        return told


def conversation_routes(room: ResponseService, owners: ResponseOwners) -> APIRouter:
    """Build the routes of conversations and their items in `room`."""
    router = APIRouter(prefix="/v1/conversations", tags=["conversations"])
    kept, of_items = ConversationStore(room.chats.database, room.chats.clock), _ConversationItems(room)
    Whose = Annotated[ResponseOwner, Depends(owners.owner_of_request)]

    async def find(owner: ResponseOwner, conversation_id: str) -> ConversationRecord:
        try:
            return await kept.find_conversation(
                owner.user_id, ids.internal_id(ids.CONVERSATION, conversation_id)
            )
        except ChatNotFoundError:
            raise not_found_error("Conversation", conversation_id, "conversation_id") from None

    def texts_of(owner: ResponseOwner) -> MessageStore:
        return room.chats.messages if owner.is_person else room.unmetered

    async def add(owner: ResponseOwner, found: ConversationRecord, given: ResponseItems) -> None:
        await kept.add_items(owner.user_id, found.chat.id, items.items_text(given), given, texts_of(owner))

    @router.post("", openapi_extra=openapi_body(items=ITEMS, metadata=METADATA))
    async def create(request: Request, owner: Whose) -> Response:
        """Create a conversation, with items where some are given."""
        body = decode_json(_new, await request.body() or b"{}")
        given = _check_items(body.items or [])
        made = await kept.create_conversation(owner.user_id, _check_labels(body.metadata))
        if given:
            await add(owner, made, given)
        return JSONResponse(_conversation_object(made))

    @router.get("/{conversation_id}")
    async def read(conversation_id: str, owner: Whose) -> Response:
        """Return `conversation_id`, without its items."""
        return JSONResponse(_conversation_object(await find(owner, conversation_id)))

    @router.post("/{conversation_id}", openapi_extra=openapi_body(metadata=METADATA))
    async def change(conversation_id: str, request: Request, owner: Whose) -> Response:
        """Replace the metadata of `conversation_id`."""
        labels = _check_labels(decode_json(_change, await request.body()).metadata)
        found = await find(owner, conversation_id)
        return JSONResponse(_conversation_object(await kept.set_labels(owner.user_id, found.chat.id, labels)))

    @router.delete("/{conversation_id}")
    async def remove(conversation_id: str, owner: Whose) -> Response:
        """Delete a conversation with its responses; those under way end first."""
        found = await find(owner, conversation_id)
        await room.chats.answers.cancel_chat(owner.user_id, found.chat.id)
        await kept.delete_conversation(owner.user_id, found.chat.id)
        return JSONResponse({"id": conversation_id, "object": "conversation.deleted", "deleted": True})

    @router.post("/{conversation_id}/items", openapi_extra=openapi_body(items=ITEMS))
    async def add_items(conversation_id: str, request: Request, owner: Whose) -> Response:
        """Add items at the end of `conversation_id`."""
        given = _check_items(decode_json(_added, await request.body()).items)
        if not given:
            raise field_error("items", "is empty", code="missing_field")
        await add(owner, await find(owner, conversation_id), given)
        return JSONResponse(items.list_items(given, {"order": "asc", "limit": "100"}))

    @router.get("/{conversation_id}/items")
    async def list_items(conversation_id: str, request: Request, owner: Whose) -> Response:
        """List the items of a conversation, the newest first."""
        told = await of_items.items_by_message(owner, await find(owner, conversation_id))
        return JSONResponse(
            items.list_items([item for _, some in told for item in some], query_fields(request))
        )

    @router.get("/{conversation_id}/items/{item_id}")
    async def read_item(conversation_id: str, item_id: str, owner: Whose) -> Response:
        """Return the item `item_id`."""
        for _, some in await of_items.items_by_message(owner, await find(owner, conversation_id)):
            for item in some:
                if item["id"] == item_id:
                    return JSONResponse(item)
        raise not_found_error("Item", item_id, "item_id")

    @router.delete("/{conversation_id}/items/{item_id}")
    async def remove_item(conversation_id: str, item_id: str, owner: Whose) -> Response:
        """Delete the item `item_id`, if it was added; those of answers go with their responses."""
        found = await find(owner, conversation_id)
        for message_id, some in await of_items.items_by_message(owner, found):
            left = [item for item in some if item["id"] != item_id]
            if len(left) == len(some):
                continue
            questions, _ = await room.kept.load_items([message_id])
            if message_id not in questions:
                raise field_error("item_id", "is part of an answer: delete its response", code="unsupported")
            await kept.replace_items(message_id, left)
            return JSONResponse(_conversation_object(found))
        raise not_found_error("Item", item_id, "item_id")

    return router


def _check_items(given: list[Any]) -> ResponseItems:
    """Raises BadBodyError (400)."""
    check_storable_text(given, "items")
    convert_response_items(given, "items")
    return items.build_items(given)


def _check_labels(metadata: Any) -> dict[str, str]:
    check_storable_text(metadata, "metadata")
    return check_metadata(metadata)


def _conversation_object(found: ConversationRecord) -> dict[str, Any]:
    return {
        "id": ids.external_id(ids.CONVERSATION, found.chat.id),
        "object": "conversation",
        "created_at": int(found.chat.created_at),
        "metadata": found.labels,
    }
