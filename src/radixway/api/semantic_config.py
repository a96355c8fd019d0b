"""The semantic layer over HTTP: feedback on answers, and reload of its configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Request
from fastapi.responses import JSONResponse
from msgspec import Meta

from radixway.api.authorization import PathAuthorization
from radixway.api.client_requests import decode_body
from radixway.api.rules import rules_routes
from radixway.core.http import BadBodyError, include_routes
from radixway.core.pipeline import GatewayError
from radixway.core.telemetry import JournalStore

if TYPE_CHECKING:
    from radixway.semantics.decisions import SemanticService
    from radixway.semantics.guard.audit import AuditService


class _FeedbackBody(msgspec.Struct):
    request_id: Annotated[str, Meta(min_length=1, max_length=256)]
    rating: Literal["up", "down"] | None = None
    score: Annotated[float, Meta(ge=0, le=1)] | None = None


def semantic_routes(
    room: SemanticService | None, book: JournalStore, gate: PathAuthorization, audit: AuditService | None
) -> APIRouter:
    """`POST /feedback`, `GET` and `POST /config/semantic`, and what `rules_routes` has.

    `room` None: requests are not read for their meaning. `audit`: told of rules that are applied.
    """
    router = APIRouter(tags=["semantic"])
    access = gate.access
    include_routes(
        router, rules_routes(room, book, access, None if audit is None else audit.log.record_event)
    )
    if room is None:
        return router

    @router.post("/feedback")
    async def feedback(request: Request) -> dict[str, Any]:
        """Record how good an answer was: `request_id` and `rating` (`up`, `down`) or `score` (0 to 1).

        It moves the score that the model has in that category. Tenants judge answers of their own.
        """
        said = await decode_body(request, _FeedbackBody)
        if (said.rating is None) == (said.score is None):
            raise BadBodyError("give either a rating, up or down, or a score from 0 to 1", param="rating")
        reward = said.score if said.score is not None else float(said.rating == "up")
        known = room.feedback.record_feedback(said.request_id, reward, gate.visible_tenant(request))
        if known is None:
            message = f"no decision on {said.request_id!r} is waiting to be judged"
            raise GatewayError(message, status=404, code="request_not_found", param="request_id")
        return {"category": known[0], "model": known[1]}

    @router.get("/config/semantic", dependencies=[Depends(access)])
    async def describe() -> dict[str, Any]:
        """Which configuration is in force, what the last reload said, and what answers were judged to be."""
        return room.snapshots.describe() | {"feedback": room.feedback.describe()}

    @router.post("/config/semantic/reload", dependencies=[Depends(access)])
    async def reload() -> JSONResponse:
        """Read the configuration again. 409, and why, when it cannot be used: the last good one stays."""
        outcome = await room.snapshots.reload_config()
        return JSONResponse({"ok": outcome.ok, "message": outcome.said}, 200 if outcome.ok else 409)

    return router
