"""`/v1/models`: the models that may be asked for."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from fastapi import APIRouter, Request

from radixway.core.pipeline import ModelNotServedError, TenantPolicy
from radixway.routing import WorkerRegistry

ModelOwners = Mapping[str, str]
"""By model, who answers for it (`owned_by`)."""


def model_routes(
    registry: WorkerRegistry,
    others: Callable[[], ModelOwners],
    tenancy_of: Callable[[Request], TenantPolicy | None],
) -> APIRouter:
    """Build `/v1/models` and `/v1/models/{model}`, in OpenAI's shape.

    `others`: names beside those that workers serve, such as the one that leaves the choice to the gateway.
    `tenancy_of`: a tenant is shown what it may use alone.
    """
    router = APIRouter(tags=["gateway"])

    def known(request: Request) -> ModelOwners:
        tenancy = tenancy_of(request)
        if tenancy is None or not tenancy.restricts_workers:
            served: Collection[str] = registry.known_models()
        else:
            workers = [worker for worker in registry if tenancy.may_use_worker(worker.pools, worker.models)]
            served = {model for worker in workers for model in worker.models if tenancy.allows_model(model)}
        return dict.fromkeys(served, "radixway") | {
            name: owner for name, owner in others().items() if name not in registry.known_models()
        }

    @router.get("/v1/models")
    async def models(request: Request) -> dict[str, Any]:
        """List every name that a request may ask for."""
        data = [_model_object(name, owner) for name, owner in sorted(known(request).items())]
        return {"object": "list", "data": data}

    @router.get("/v1/models/{model:path}")
    async def model(model: str, request: Request) -> dict[str, Any]:
        """Describe one model."""
        owner = known(request).get(model)
        if owner is None:
            raise ModelNotServedError(model)
        return _model_object(model, owner)

    return router


def _model_object(name: str, owner: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": owner}
