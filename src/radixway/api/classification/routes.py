"""All paths of the classification API, and `/api/v1`, which lists them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from fastapi.routing import APIRoute

from radixway._version import __version__
from radixway.api.admin_access import AdminAccess
from radixway.api.classification.classify_routes import BatchClassificationMetrics, classify_routes
from radixway.api.classification.embeddings import embedding_routes
from radixway.api.classification.lazy_service import LazyClassificationService
from radixway.api.classification.system_prompts import prompt_routes
from radixway.core.telemetry import MetricsRegistry

if TYPE_CHECKING:
    from radixway.semantics.decisions.service import SemanticService


def classification_routes(
    room: LazyClassificationService,
    semantic: SemanticService | None,
    access: AdminAccess,
    metrics: MetricsRegistry,
) -> list[APIRouter]:
    """Build all routers of the API. `semantic`: the gateway's, whose prompts `access` may switch; None where
    it has none.
    """
    counts = BatchClassificationMetrics(metrics)
    routers = [classify_routes(room, counts), embedding_routes(room), prompt_routes(semantic, access)]
    return [*routers, _overview_routes(routers)]


def _overview_routes(routers: Iterable[APIRouter]) -> APIRouter:
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
