"""`/config/system-prompts`: which category's prompt is given to models, seen and switched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Request

from radixway.surfaces.access import AdminAccess
from radixway.surfaces.classification.bodies import body_of
from radixway.surfaces.classification.errors import ApiError, in_this_shape

if TYPE_CHECKING:
    from radixway.semantic.build import SemanticRoom


class _Switch(msgspec.Struct, forbid_unknown_fields=True):
    category: str | None = None
    enabled: bool | None = None
    mode: Literal["replace", "insert", "off"] | None = None


_switch = msgspec.json.Decoder(_Switch)


def prompt_routes(semantic: SemanticRoom | None, access: AdminAccess) -> APIRouter:
    """Both need the admin key: prompts are the operator's. `semantic` None: there are none to switch."""
    router = APIRouter(tags=["classification"], dependencies=[Depends(access)])

    @router.get("/config/system-prompts")
    async def prompts() -> dict[str, Any]:
        """Every category with its prompt, whether it is on, and its mode."""
        return {"system_prompts": _told(semantic)}

    @router.put("/config/system-prompts")
    async def switch(request: Request) -> dict[str, Any]:
        """Switch `category`, or all, on or off (`enabled`) or to another `mode`, until the next reload."""
        with in_this_shape():
            asked = await body_of(request, _switch)
        if asked.enabled is None and asked.mode is None:
            raise ApiError("either enabled or mode field must be given", param="enabled")
        if semantic is None:
            raise ApiError(
                "semantic is not configured: no prompts are given to models",
                status=409,
                code="SEMANTIC_NOT_CONFIGURED",
            )
        from radixway.semantic.prompt_switch import switched

        try:
            semantic.snapshots.swap(
                lambda current: switched(current, asked.category, asked.enabled, asked.mode)
            )
        except KeyError:
            raise ApiError(
                "there is no such category", param="category", status=404, code="CATEGORY_NOT_FOUND"
            ) from None
        return {"system_prompts": _told(semantic)}

    return router


def _told(semantic: SemanticRoom | None) -> list[dict[str, Any]]:
    if semantic is None:
        return []
    from radixway.semantic.prompt_switch import prompts_told

    return prompts_told(semantic.snapshots.current)
