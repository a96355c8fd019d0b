"""`/v1/responses`."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import JSONResponse
from msgspec import Meta

from radixway.chat import responses as store
from radixway.chat.errors import NotFound
from radixway.surfaces.chats.responses import asking, ids, items
from radixway.surfaces.chats.responses.creating import Creating
from radixway.surfaces.chats.responses.errors import not_found
from radixway.surfaces.chats.responses.owners import Owner, Owners
from radixway.surfaces.chats.responses.passing import Passing
from radixway.surfaces.chats.responses.room import ResponseRoom
from radixway.surfaces.chats.responses.shapes import whole
from radixway.surfaces.wires.sampling import wrong
from radixway.web import read_fields


def body_of(**properties: Any) -> dict[str, Any]:
    """A JSON body for OpenAPI; what the properties say of it is not all that is checked."""
    schema = {"type": "object", "properties": properties}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


ITEMS: dict[str, Any] = {"type": "array", "items": {"type": "object"}}
METADATA: dict[str, Any] = {"type": "object", "additionalProperties": {"type": "string"}}
_ASKED = body_of(
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


class Reading(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How a response is to be read."""

    stream: bool = False
    starting_after: Annotated[int, Meta(ge=0)] | None = None
    include: Any = None
    include_obfuscation: bool = False


def response_routes(room: ResponseRoom, owners: Owners) -> APIRouter:
    """Responses: made, read, heard, cancelled, deleted."""
    router = APIRouter(prefix="/v1/responses", tags=["responses"])
    creating, passing = Creating(room), Passing(room)
    Whose = Annotated[Owner, Depends(owners.of)]

    async def found(owner: Owner, response_id: str) -> store.Response:
        try:
            return await room.kept.find(owner.user_id, ids.inner(ids.RESPONSE, response_id))
        except NotFound:
            raise not_found("Response", response_id, "response_id") from None

    @router.post("", openapi_extra=_ASKED)
    async def create(request: Request, owner: Whose) -> Response:
        """An answer: whole, streamed, or, in the background, later."""
        asked = asking.read(await request.body())
        return await (creating if asked.store else passing).create(request, owner, asked)

    @router.get("/{response_id}")
    async def read(response_id: str, request: Request, owner: Whose) -> Response:
        """A response as it stands, or its events after number `starting_after`."""
        wanted = read_fields(query_of(request), Reading)
        kept = await found(owner, response_id)
        if wanted.stream:
            after = -1 if wanted.starting_after is None else wanted.starting_after
            return await creating.stream(request, kept, after)
        if wanted.starting_after is not None:
            raise wrong("starting_after", "is for streams only: give stream=true, or leave it out")
        return JSONResponse(whole(kept))

    @router.post("/{response_id}/cancel")
    async def cancel(response_id: str, owner: Whose) -> Response:
        """End a response under way; what it has said so far stays. One that was cancelled stays as it is."""
        kept = await found(owner, response_id)
        await room.chats.answers.cancel(owner.user_id, kept.message.id)
        told = whole(await found(owner, response_id))
        if told["status"] != "cancelled":
            raise wrong("response_id", f"the response is {told['status']} and cannot be cancelled")
        return JSONResponse(told)

    @router.delete("/{response_id}")
    async def delete(response_id: str, owner: Whose) -> Response:
        """It is gone; one under way ends first."""
        kept = await found(owner, response_id)
        await room.chats.answers.cancel(owner.user_id, kept.message.id)
        await room.kept.delete(owner.user_id, kept.message.id)
        return JSONResponse({"id": response_id, "object": "response", "deleted": True})

    @router.get("/{response_id}/input_items")
    async def input_items(response_id: str, request: Request, owner: Whose) -> Response:
        """What it was asked with."""
        kept = await found(owner, response_id)
        asked_in = kept.message.parent_id or ""
        questions, _ = await room.kept.items_of([asked_in])
        return JSONResponse(items.page(questions.get(asked_in, []), query_of(request)))

    return router


def query_of(request: Request) -> Mapping[str, str]:
    """Lists come as `include[]` or several times; the last of each name will do, since none changes much."""
    return {name.removesuffix("[]"): value for name, value in request.query_params.items()}
