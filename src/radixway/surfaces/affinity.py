"""`/finish_session`: a conversation is over, and needs its worker no more."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Request
from msgspec import Meta

from radixway.routing import Selector
from radixway.web import read_fields, read_json


class _Finish(msgspec.Struct):
    session_id: Annotated[str, Meta(min_length=1)]


_decoder = msgspec.json.Decoder(_Finish)


def affinity_routes(selector: Selector) -> APIRouter:
    """`POST /finish_session`, with `session_id` in a JSON body or in the query."""
    router = APIRouter(tags=["gateway"])

    @router.post("/finish_session")
    async def finish_session(request: Request) -> dict[str, Any]:
        """Forget where the session was. May be called again, and for sessions never seen."""
        raw = await request.body()
        said = read_json(_decoder, raw) if raw else read_fields(request.query_params, _Finish)
        return {"session_id": said.session_id, "finished": selector.finish_session(said.session_id)}

    return router
