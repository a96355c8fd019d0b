"""`/config/system-prompts`: each category's prompt, shown and switched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import msgspec
from fastapi import APIRouter, Depends, Request

from radixway.api.admin_access import AdminAccess
from radixway.api.classification.errors import ClassificationApiError, translate_errors
from radixway.api.classification.request_bodies import decode_body

if TYPE_CHECKING:
    from radixway.semantics.decisions.service import SemanticService


class _SwitchBody(msgspec.Struct, forbid_unknown_fields=True):
    category: str | None = None
    enabled: bool | None = None
    mode: Literal["replace", "insert", "off"] | None = None


_switch = msgspec.json.Decoder(_SwitchBody)


def prompt_routes(semantic: SemanticService | None, access: AdminAccess) -> APIRouter:
    """Build them for holders of the admin key: prompts are the operator's. `semantic` None: there are none to
    switch.
    """
    router = APIRouter(tags=["classification"], dependencies=[Depends(access)])

    @router.get("/config/system-prompts")
    async def prompts() -> dict[str, Any]:
        """Every category with its prompt, whether it is on, and its mode."""
        return {"system_prompts": _prompt_objects(semantic)}

    @router.put("/config/system-prompts")
    async def switch(request: Request) -> dict[str, Any]:
        """Switch `category`, or all, on or off (`enabled`) or to another `mode`, until the next reload."""
        with translate_errors():
            asked = await decode_body(request, _switch)
        if asked.enabled is None and asked.mode is None:
            raise ClassificationApiError("either enabled or mode field must be given", param="enabled")
        if semantic is None:
            raise ClassificationApiError(
                "semantic is not configured: no prompts are given to models",
                status=409,
                code="SEMANTIC_NOT_CONFIGURED",
            )
        from radixway.semantics.decisions.system_prompts import switch_prompts

        try:
            semantic.snapshots.replace_current(
                lambda current: switch_prompts(current, asked.category, asked.enabled, asked.mode)
            )
        except KeyError:
            raise ClassificationApiError(
                "there is no such category", param="category", status=404, code="CATEGORY_NOT_FOUND"
            ) from None
        return {"system_prompts": _prompt_objects(semantic)}

    return router


def _prompt_objects(semantic: SemanticService | None) -> list[dict[str, Any]]:
    if semantic is None:
        return []
    from radixway.semantics.decisions.system_prompts import describe_prompts

    return describe_prompts(semantic.snapshots.current)
