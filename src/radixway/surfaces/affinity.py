"""`/finish_session`: a conversation is over, and needs its worker no more."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Request
from msgspec import Meta

from radixway.routing import Selector
from radixway.web import decode_json, decode_query


class _FinishSessionBody(msgspec.Struct):
    session_id: Annotated[str, Meta(min_length=1)]


_decoder = msgspec.json.Decoder(_FinishSessionBody)


def affinity_routes(selector: Selector) -> APIRouter:
    """`POST /finish_session`, with `session_id` in a JSON body or in the query."""
    router = APIRouter(tags=["gateway"])

    @router.post("/finish_session")
    async def finish_session(request: Request) -> dict[str, Any]:
        """Forget where the session was. May be called again, and for sessions never seen."""
        raw = await request.body()
        said = decode_json(_decoder, raw) if raw else decode_query(request.query_params, _FinishSessionBody)
        return {"session_id": said.session_id, "finished": selector.end_session(said.session_id)}

    return router
