"""`/v1/responses`."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from msgspec import Meta

from radixway.api.chats.responses import ids, items, request_schema
from radixway.api.chats.responses.errors import not_found_error
from radixway.api.chats.responses.owners import ResponseOwner, ResponseOwners
from radixway.api.chats.responses.service import ResponseService
from radixway.api.chats.responses.shapes import render_response
from radixway.api.chats.responses.stateless_handler import StatelessResponseHandler
from radixway.api.chats.responses.stored_handler import StoredResponseHandler
from radixway.api.protocols.request_fields import field_error
from radixway.chat import stored_responses as store
from radixway.chat.errors import ChatNotFoundError
from radixway.core.http import decode_query


def openapi_body(**properties: Any) -> dict[str, Any]:
    """A JSON body for OpenAPI; what the properties say of it is not all that is checked."""
    schema = {"type": "object", "properties": properties}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


ITEMS: dict[str, Any] = {"type": "array", "items": {"type": "object"}}
METADATA: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
_ASKED = openapi_body(
    model={"type": "string"},
    input={"anyOf": [{"type": "string"}, ITEMS]},
    instructions={"type": "string"},
    previous_response_id={"type": "string"},
    conversation={"type": "string"},
    background={"type": "boolean"},
    store={"type": "boolean"},
    stream={"type": "boolean"},
    max_output_tokens={"type": "integer", "minimum": 1},
    temperature={"type": "number", "minimum": 0},
    top_p={"type": "number", "minimum": 0, "maximum": 1},
    tools={"type": "array", "items": {"type": "object"}},
    text={"type": "object"},
    reasoning={"type": "object"},
    metadata=METADATA,
)


class ResponseQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """The query by which a response is read."""

    stream: bool = False
    starting_after: Annotated[int, Meta(ge=0)] | None = None
    include: Any = None
    include_obfuscation: bool = False


def response_routes(room: ResponseService, owners: ResponseOwners) -> APIRouter:
    """Build the routes that create, read, stream, cancel and delete responses in `room`."""
    router = APIRouter(prefix="/v1/responses", tags=["responses"])
    creating, passing = StoredResponseHandler(room), StatelessResponseHandler(room)
    Whose = Annotated[ResponseOwner, Depends(owners.owner_of_request)]

    async def found(owner: ResponseOwner, response_id: str) -> store.StoredResponse:
        try:
            return await room.kept.find_response(owner.user_id, ids.internal_id(ids.RESPONSE, response_id))
        except ChatNotFoundError:
            raise not_found_error("Response", response_id, "response_id") from None

    @router.post("", openapi_extra=_ASKED)
    async def create(request: Request, owner: Whose) -> Response:
        """Create a response: whole, streamed, or, in the background, later."""
        asked = request_schema.parse_create_params(await request.body())
        return await (creating if asked.is_stored else passing).create_response(request, owner, asked)

    @router.get("/{response_id}")
    async def read(response_id: str, request: Request, owner: Whose) -> Response:
        """Return `response_id` as it stands, or its events after number `starting_after`."""
        wanted = decode_query(query_fields(request), ResponseQuery)
        kept = await found(owner, response_id)
        if wanted.stream:
            after = -1 if wanted.starting_after is None else wanted.starting_after
            return await creating.stream_response(request, kept, after)
        if wanted.starting_after is not None:
            raise field_error("starting_after", "is for streams only: give stream=true, or leave it out")
        return JSONResponse(render_response(kept))

    @router.post("/{response_id}/cancel")
    async def cancel(response_id: str, owner: Whose) -> Response:
        """End a response under way; what it has said so far stays. One that was cancelled stays as it is."""
        kept = await found(owner, response_id)
        await room.chats.answers.cancel_answer(owner.user_id, kept.message.id)
        told = render_response(await found(owner, response_id))
        if told["status"] != "cancelled":
            raise field_error("response_id", f"the response is {told['status']} and cannot be cancelled")
        return JSONResponse(told)

    @router.delete("/{response_id}")
    async def delete(response_id: str, owner: Whose) -> Response:
        """Delete `response_id`; one under way ends first."""
        kept = await found(owner, response_id)
        await room.chats.answers.cancel_answer(owner.user_id, kept.message.id)
        await room.kept.delete_response(owner.user_id, kept.message.id)
        return JSONResponse({"id": response_id, "object": "response", "deleted": True})

    @router.get("/{response_id}/input_items")
    async def input_items(response_id: str, request: Request, owner: Whose) -> Response:
        """List the items that a response was asked with."""
        kept = await found(owner, response_id)
        asked_in = kept.message.parent_id or ""
        questions, _ = await room.kept.load_items([asked_in])
        return JSONResponse(items.list_items(questions.get(asked_in, []), query_fields(request)))

    return router


def query_fields(request: Request) -> Mapping[str, str]:
    """Return the query of `request`; of lists (`include[]`, or repeated names) the last value counts."""
    return {name.removesuffix("[]"): value for name, value in request.query_params.items()}
