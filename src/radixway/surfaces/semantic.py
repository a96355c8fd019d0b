"""What may be said to the semantic layer: judgements of answers, and to read its configuration again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from msgspec import Meta

from radixway.pipeline import GatewayError
from radixway.surfaces.gate import Gate
from radixway.surfaces.rules import rules_routes
from radixway.telemetry import JournalBook
from radixway.web import BadBody, join, read_json

if TYPE_CHECKING:
    from radixway.guard.audit import AuditRoom
    from radixway.semantic import SemanticRoom


class DecisionNotKnown(GatewayError):
    """No decision of that request is remembered, or it was judged already."""

    status = 404
    code = "request_not_found"
    param = "request_id"


class _Judgement(msgspec.Struct):
    request_id: Annotated[str, Meta(min_length=1, max_length=256)]
    rating: Literal["up", "down"] | None = None
    score: Annotated[float, Meta(ge=0, le=1)] | None = None


_decoder = msgspec.json.Decoder(_Judgement)


def semantic_routes(
    room: SemanticRoom | None, book: JournalBook, gate: Gate, audit: AuditRoom | None
) -> APIRouter:
    """`POST /feedback`, `GET` and `POST /config/semantic`, and what `rules_routes` has.

    `room` None: requests are not read for their meaning. `audit`: told of rules that are applied.
    """
    router = APIRouter(tags=["semantic"])
    access = gate.access
    join(router, rules_routes(room, book, access, None if audit is None else audit.log.note))
    if room is None:
        return router

    @router.post("/feedback")
    async def feedback(request: Request) -> dict[str, Any]:
        """How good an answer was: `request_id` and `rating` (`up`, `down`) or `score` (0 to 1).

        It moves the score that the model has in that category. Tenants judge answers of their own.
        """
        said: _Judgement = read_json(_decoder, await request.body())
        if (said.rating is None) == (said.score is None):
            raise BadBody("give either a rating, up or down, or a score from 0 to 1", param="rating")
        reward = said.score if said.score is not None else float(said.rating == "up")
        known = room.feedback.judge(said.request_id, reward, gate.confined_to(request))
        if known is None:
            raise DecisionNotKnown(f"no decision on {said.request_id!r} is waiting to be judged")
        return {"category": known[0], "model": known[1]}

    @router.get("/config/semantic", dependencies=[Depends(access)])
    async def describe() -> dict[str, Any]:
        """Which configuration is in force, what the last reload said, and what answers were judged to be."""
        return room.snapshots.describe() | {"feedback": room.feedback.describe()}

    @router.post("/config/semantic/reload", dependencies=[Depends(access)])
    async def reload() -> JSONResponse:
        """Read the configuration again. 409, and why, when it cannot be used: the last good one stays."""
        outcome = await room.snapshots.reload()
        return JSONResponse({"ok": outcome.ok, "message": outcome.said}, 200 if outcome.ok else 409)

    return router
