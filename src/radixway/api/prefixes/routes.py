"""`GET /prefixes`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Request
from msgspec import Meta

from radixway.api.admin_access import AdminAccess
from radixway.api.prefixes.shapes import PrefixTree, Source
from radixway.api.prefixes.sources import PrefixSources
from radixway.core.http import decode_query


class _PrefixQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The query."""

    source: Source = "requests"
    most: Annotated[int, Meta(ge=1, le=1000)] = 200
    levels: Annotated[int, Meta(ge=1, le=32)] = 8
    latest: Annotated[int, Meta(ge=1, le=10_000)] = 2000


_PARAMETERS: list[dict[str, Any]] = [
    {"name": name, "in": "query", "required": False, "schema": schema, "description": text}
    for name, schema, text in (
        (
            "source",
            {"type": "string", "enum": ["requests", "caches", "trajectories"], "default": "requests"},
            "what the latest requests had in common, what engines cache, or what is recorded",
        ),
        (
            "most",
            {"type": "integer", "minimum": 1, "maximum": 1000, "default": 200},
            "nodes, the hottest ones",
        ),
        ("levels", {"type": "integer", "minimum": 1, "maximum": 32, "default": 8}, "of the tree"),
        (
            "latest",
            {"type": "integer", "minimum": 1, "maximum": 10_000, "default": 2000},
            "requests that are looked at, where they are the source",
        ),
    )
]


def prefix_routes(sources: PrefixSources, access: AdminAccess) -> APIRouter:
    """Build `/prefixes` for administrators."""
    router = APIRouter(tags=["gateway"], dependencies=[Depends(access)])

    @router.get("/prefixes", openapi_extra={"parameters": _PARAMETERS})
    async def prefixes(request: Request) -> PrefixTree:
        """A tree of what is shared, in its hottest nodes: lengths, who asks for them, who holds them."""
        asked = decode_query(dict(request.query_params), _PrefixQuery)
        if asked.source == "caches":
            return await sources.cache_prefixes(asked.most, asked.levels)
        if asked.source == "trajectories":
            return sources.trajectory_prefixes(asked.most, asked.levels)
        return await sources.request_prefixes(asked.most, asked.levels, asked.latest)

    return router
