"""`/v1/models`: what may be asked for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from fastapi import APIRouter, Request

from radixway.pipeline import ModelNotFound, Tenancy
from radixway.routing import Registry

Owners = Mapping[str, str]
"""By model, who answers for it (`owned_by`)."""


def model_routes(
    registry: Registry,
    others: Callable[[], Owners] = dict,
    tenancy_of: Callable[[Request], Tenancy | None] = lambda request: None,
) -> APIRouter:
    """`/v1/models` and `/v1/models/{model}`, in OpenAI's shape.

    `others`: names beside those that workers serve, such as the one that leaves the choice to the gateway.
    `tenancy_of`: a tenant is shown what it may use alone.
    """
    router = APIRouter(tags=["gateway"])

    def known(request: Request) -> Owners:
        tenancy = tenancy_of(request)
        if tenancy is None or not tenancy.confines:
            served: Collection[str] = registry.models()
        else:
            workers = [worker for worker in registry if tenancy.may_use(worker.pools, worker.models)]
            served = {model for worker in workers for model in worker.models if tenancy.allows(model)}
        return dict.fromkeys(served, "radixway") | {
            name: owner for name, owner in others().items() if name not in registry.models()
        }

    @router.get("/v1/models")
    async def models(request: Request) -> dict[str, Any]:
        """Every name that a request may ask for."""
        return {"object": "list", "data": _in_order(known(request).items())}

    @router.get("/v1/models/{model:path}")
    async def model(model: str, request: Request) -> dict[str, Any]:
        """One model."""
        owner = known(request).get(model)
        if owner is None:
            raise ModelNotFound(model)
        return _model(model, owner)

    return router


def _in_order(owners: Iterable[tuple[str, str]]) -> list[dict[str, Any]]:
    return [_model(name, owner) for name, owner in sorted(owners)]


def _model(name: str, owner: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": owner}
