"""`/v1/responses`, and `/v1/conversations`, to which responses are added one after another."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from msgspec import Meta

from radixway.api.chats.errors import not_found_error
from radixway.api.chats.responses import request_schema
from radixway.api.chats.responses.request_schema import check_metadata, check_storable_text
from radixway.api.chats.responses.service import ResponseOwner, ResponseOwners, ResponseService
from radixway.api.chats.responses.shapes import (
    CONVERSATION,
    RESPONSE,
    build_items,
    external_id,
    internal_id,
    items_text,
    page_items,
    render_output_items,
    render_response,
)
from radixway.api.chats.responses.stateless_handler import StatelessResponseHandler
from radixway.api.chats.responses.stored_handler import StoredResponseHandler
from radixway.api.client_requests import decode_body, run_while_connected
from radixway.api.openapi import request_body
from radixway.chat import stored_responses as store
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.records import Role
from radixway.chat.stored_responses import ConversationRecord, ConversationStore, ResponseItems
from radixway.core.http import LazyRouter, decode_query
from radixway.core.protocols.request import field_error
from radixway.core.protocols.responses import ResponsesBody, convert_response_items

_Item = Annotated[Any, Meta(extra_json_schema={"type": "object"})]
_Items = Annotated[list[_Item], Meta(max_length=20)]
_Labels = Annotated[
    Any, Meta(extra_json_schema={"type": "object", "additionalProperties": {"type": "string"}})
]


class NewConversation(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The items and labels of a new conversation."""

    items: _Items | None = None
    metadata: _Labels = None


class ConversationChange(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The new labels of a conversation."""

    metadata: _Labels


class NewConversationItems(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Items to append to a conversation."""

    items: _Items


class ResponseQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The query by which a response is read."""

    stream: bool = False
    starting_after: Annotated[int, Meta(ge=0)] | None = None
    include: Any = None
    include_obfuscation: bool = False


def response_routes(service: ResponseService, owners: ResponseOwners) -> APIRouter:
    """Build the routes that create, read, stream, cancel and delete responses in `service`."""
    router = LazyRouter(prefix="/v1/responses", tags=["responses"])
    stored_handler, stateless_handler = StoredResponseHandler(service), StatelessResponseHandler(service)
    Whose = Annotated[ResponseOwner, Depends(owners.owner_of_request)]

    async def find(owner: Whose, response_id: str) -> store.StoredResponse:
        try:
            return await service.store.find_response(owner.user_id, internal_id(RESPONSE, response_id))
        except ChatNotFoundError:
            raise not_found_error("Response", response_id, "response_id") from None

    Found = Annotated[store.StoredResponse, Depends(find)]

    @router.post("", openapi_extra=request_body(ResponsesBody))
    async def create(request: Request, owner: Whose) -> Response:
        """Create a response: whole, streamed, or, in the background, later."""
        params = request_schema.parse_create_params(await request.body())
        return await (stored_handler if params.is_stored else stateless_handler).create_response(
            request, owner, params
        )

    @router.post("/input_tokens", openapi_extra=request_body(ResponsesBody))
    async def count_tokens(request: Request, owner: Whose) -> Response:
        """Count the tokens that a response's prompt would have."""
        params = request_schema.parse_create_params(await request.body())
        counted = await run_while_connected(request, stateless_handler.count_tokens(owner, params))
        return Response(counted, media_type="application/json")

    @router.get("/{response_id}")
    async def read(stored: Found, request: Request) -> Response:
        """Return `response_id` as it stands, or its events after number `starting_after`."""
        wanted = decode_query(query_fields(request), ResponseQuery)
        if wanted.stream:
            after = -1 if wanted.starting_after is None else wanted.starting_after
            return await stored_handler.stream_response(request, stored, after)
        if wanted.starting_after is not None:
            raise field_error("starting_after", "is for streams only: give stream=true, or leave it out")
        return JSONResponse(render_response(stored))

    @router.post("/{response_id}/cancel")
    async def cancel(stored: Found, response_id: str, owner: Whose) -> Response:
        """End a response under way; what it has said so far stays. One that was cancelled stays as it is."""
        await service.chats.answers.cancel_answer(owner.user_id, stored.message.id)
        response = render_response(await find(owner, response_id))
        if response["status"] != "cancelled":
            reason = f"the response is {response['status']} and cannot be cancelled"
            raise field_error("response_id", reason, code="response_already_completed")
        return JSONResponse(response)

    @router.delete("/{response_id}")
    async def delete(stored: Found, response_id: str, owner: Whose) -> Response:
        """Delete `response_id`; one under way ends first."""
        await service.chats.answers.cancel_answer(owner.user_id, stored.message.id)
        await service.store.delete_response(owner.user_id, stored.message.id)
        return JSONResponse({"id": response_id, "object": "response", "deleted": True})

    @router.get("/{response_id}/input_items")
    async def input_items(stored: Found, request: Request) -> Response:
        """List the items that a response was asked with."""
        question_id = stored.message.parent_id or ""
        questions, _ = await service.store.load_items([question_id])
        return JSONResponse(page_items(questions.get(question_id, []), query_fields(request)))

    return router


def query_fields(request: Request) -> Mapping[str, str]:
    """Return the query of `request`; of lists (`include[]`, or repeated names) the last value counts."""
    return {name.removesuffix("[]"): value for name, value in request.query_params.items()}


def conversation_routes(service: ResponseService, owners: ResponseOwners) -> APIRouter:
    """Build the routes of conversations and their items in `service`."""
    router = LazyRouter(prefix="/v1/conversations", tags=["conversations"])
    conversations = ConversationStore(service.chats.database, service.chats.clock)
    Whose = Annotated[ResponseOwner, Depends(owners.owner_of_request)]

    async def find(owner: Whose, conversation_id: str) -> ConversationRecord:
        try:
            return await conversations.find_conversation(
                owner.user_id, internal_id(CONVERSATION, conversation_id)
            )
        except ChatNotFoundError:
            raise not_found_error("Conversation", conversation_id, "conversation_id") from None

    Found = Annotated[ConversationRecord, Depends(find)]

    async def add(owner: ResponseOwner, found: ConversationRecord, given: ResponseItems) -> None:
        text = items_text(given)
        await conversations.add_items(owner.user_id, found.chat.id, text, given, service.messages_for(owner))

    async def items_by_message(found: ConversationRecord) -> list[tuple[str, ResponseItems]]:
        """The items of `found` by message, the oldest first."""
        tail = found.chat.active_thread_tail_message_id
        thread = [] if tail is None else await service.chats.messages.load_thread(tail)
        questions, _ = await service.store.load_items([message.id for message in thread])
        listed = []
        for message in thread:
            if message.role is Role.PROMPTER:
                listed.append((message.id, questions.get(message.id, [])))
            elif (stored := await service.store.get_response(message.id)) is not None:
                listed.append((message.id, render_output_items(stored)))
        return listed

    @router.post("", openapi_extra=request_body(NewConversation))
    async def create(request: Request, owner: Whose) -> Response:
        """Create a conversation, with items where some are given."""
        body = await decode_body(request, NewConversation, b"{}")
        given = _check_items(body.items or [])
        made = await conversations.create_conversation(owner.user_id, _check_labels(body.metadata))
        if given:
            await add(owner, made, given)
        return JSONResponse(_conversation_object(made))

    @router.get("/{conversation_id}")
    async def read(found: Found) -> Response:
        """Return `conversation_id`, without its items."""
        return JSONResponse(_conversation_object(found))

    @router.post("/{conversation_id}", openapi_extra=request_body(ConversationChange))
    async def change(found: Found, request: Request, owner: Whose) -> Response:
        """Replace the metadata of `conversation_id`."""
        labels = _check_labels((await decode_body(request, ConversationChange)).metadata)
        changed = await conversations.set_labels(owner.user_id, found.chat.id, labels)
        return JSONResponse(_conversation_object(changed))

    @router.delete("/{conversation_id}")
    async def remove(found: Found, conversation_id: str, owner: Whose) -> Response:
        """Delete a conversation with its responses; those under way end first."""
        await service.chats.answers.cancel_chat(owner.user_id, found.chat.id)
        await conversations.delete_conversation(owner.user_id, found.chat.id)
        return JSONResponse({"id": conversation_id, "object": "conversation.deleted", "deleted": True})

    @router.post("/{conversation_id}/items", openapi_extra=request_body(NewConversationItems))
    async def add_items(found: Found, request: Request, owner: Whose) -> Response:
        """Add items at the end of `conversation_id`."""
        given = _check_items((await decode_body(request, NewConversationItems)).items)
        if not given:
            raise field_error("items", "is empty", code="missing_field")
        await add(owner, found, given)
        return JSONResponse(page_items(given, {"order": "asc", "limit": "100"}))

    @router.get("/{conversation_id}/items")
    async def list_items(found: Found, request: Request) -> Response:
        """List the items of a conversation, the newest first."""
        listed = await items_by_message(found)
        every = [item for _, some in listed for item in some]
        return JSONResponse(page_items(every, query_fields(request)))

    @router.get("/{conversation_id}/items/{item_id}")
    async def read_item(found: Found, item_id: str) -> Response:
        """Return the item `item_id`."""
        for _, some in await items_by_message(found):
            for item in some:
                if item["id"] == item_id:
                    return JSONResponse(item)
        raise not_found_error("Item", item_id, "item_id")

    @router.delete("/{conversation_id}/items/{item_id}")
    async def remove_item(found: Found, item_id: str) -> Response:
        """Delete the item `item_id`, if it was added; those of answers go with their responses."""
        for message_id, some in await items_by_message(found):
            left = [item for item in some if item["id"] != item_id]
            if len(left) == len(some):
                continue
            questions, _ = await service.store.load_items([message_id])
            if message_id not in questions:
                raise field_error("item_id", "is part of an answer: delete its response", code="unsupported")
            await conversations.replace_items(message_id, left)
            return JSONResponse(_conversation_object(found))
        raise not_found_error("Item", item_id, "item_id")

    return router


def _check_items(given: list[Any]) -> ResponseItems:
    check_storable_text(given, "items")
    convert_response_items(given, "items")
    return build_items(given)


def _check_labels(metadata: Any) -> dict[str, str]:
    check_storable_text(metadata, "metadata")
    return check_metadata(metadata)


def _conversation_object(found: ConversationRecord) -> dict[str, Any]:
    return {
        "id": external_id(CONVERSATION, found.chat.id),
        "object": "conversation",
        "created_at": int(found.chat.created_at),
        "metadata": found.labels,
    }
