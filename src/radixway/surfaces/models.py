"""`/v1/models`: what may be asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from fastapi import APIRouter

from radixway.pipeline import ModelNotFound
from radixway.routing import Registry

Owners = Mapping[str, str]
"""By model, who answers for it (`owned_by`)."""


def model_routes(registry: Registry, others: Callable[[], Owners] = dict) -> APIRouter:
    """`/v1/models` and `/v1/models/{model}`, in OpenAI's shape.

    `others`: names beside those that workers serve, such as the one that leaves the choice to the gateway.
    """
    router = APIRouter(tags=["gateway"])

    def known() -> Owners:
        return dict.fromkeys(registry.models(), "radixway") | {
            name: owner for name, owner in others().items() if name not in registry.models()
        }

    @router.get("/v1/models")
    async def models() -> dict[str, Any]:
        """Every name that a request may ask for."""
        return {"object": "list", "data": _in_order(known().items())}

    @router.get("/v1/models/{model:path}")
    async def model(model: str) -> dict[str, Any]:
        """One model."""
        owner = known().get(model)
        if owner is None:
            raise ModelNotFound(model)
        return _model(model, owner)

    return router


def _in_order(owners: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    return [_model(name, owner) for name, owner in sorted(owners)]


def _model(name: str, owner: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": owner}
