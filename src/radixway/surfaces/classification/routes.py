"""All paths of the classification API, and `/api/v1`, which lists them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from fastapi.routing import APIRoute

from radixway import __version__
from radixway.surfaces.access import AdminAccess
from radixway.surfaces.classification.classify import classify_routes
from radixway.surfaces.classification.counts import BatchCounts
from radixway.surfaces.classification.opening import LazyRoom
from radixway.surfaces.classification.prompts import prompt_routes
from radixway.surfaces.classification.vectors import vector_routes
from radixway.telemetry import Metrics

if TYPE_CHECKING:
    from radixway.semantic.build import SemanticRoom


def classification_routes(
    room: LazyRoom, semantic: SemanticRoom | None, access: AdminAccess, metrics: Metrics
) -> list[APIRouter]:
    """`semantic`: the gateway's, whose prompts `access` may switch; None where it has none."""
    counts = BatchCounts(metrics)
    routers = [classify_routes(room, counts), vector_routes(room), prompt_routes(semantic, access)]
    return [*routers, _overview(routers)]


def _overview(routers: Iterable[APIRouter]) -> APIRouter:
    router = APIRouter(tags=["classification"])
    endpoints = [
        {"path": route.path, "method": method, "description": route.description.partition("\n")[0]}
        for each in routers
        for route in each.routes
        if isinstance(route, APIRoute)
        for method in sorted(route.methods or ())
    ]

    @router.get("/api/v1")
    async def overview() -> dict[str, Any]:
        """Every path of this API, with its method and a sentence."""
        links = {"openapi": "/openapi.json", "docs": "/docs", "models": "/info/models"}
        return {"service": "Radixway", "version": __version__, "endpoints": endpoints, "links": links}

    return router
