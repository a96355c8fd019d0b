"""`/v1/models`: the models that may be asked for, as their workers describe them.

Clients of Anthropic's API get the same models in its form.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from fastapi import APIRouter, Request

from radixway.api.messages import VERSION_HEADER, ModelPageQuery, build_model_info, build_model_page
from radixway.core.http import LazyRouter, decode_query
from radixway.core.pipeline import ModelNotServedError, TenantPolicy
from radixway.routing import DefaultModelResolver, Worker, WorkerRegistry


class ModelListing:
    """Describes every name that a request may ask for, as far as its tenant may."""

    def __init__(
        self, registry: WorkerRegistry, models: DefaultModelResolver, others: Callable[[], Collection[str]]
    ) -> None:
        """`others`: names beside those that workers serve, such as the one that leaves the choice to the
        gateway."""
        self._registry = registry
        self._models = models
        self._others = others

    def list_models(self, tenancy: TenantPolicy | None) -> list[dict[str, Any]]:
        """Return a card for each name, in their order: models, aliases that are no patterns, others."""
        cards = {name: _model_card(name, workers) for name, workers in self._serving(tenancy).items()}
        aliases = self._models.list_aliases(tenancy)
        cards |= {
            alias: _alias_card(alias, cards[model], self._models.split_of(alias))
            for alias, model in aliases.items()
            if model in cards
        }
        served = self._registry.known_models()
        cards |= {name: _empty_card(name) for name in self._others() if name not in served}
        return [cards[name] for name in sorted(cards)]

    def describe_model(self, name: str, tenancy: TenantPolicy | None) -> dict[str, Any]:
        """Return the card of `name`, which may be any alias. Raises ModelNotServedError."""
        listed = {card["id"]: card for card in self.list_models(tenancy)}
        if name in listed:
            return listed[name]
        model = self._models.resolve_model(name, tenancy)
        if model not in listed:
            raise ModelNotServedError(name)
        return _alias_card(name, listed[model])

    def _serving(self, tenancy: TenantPolicy | None) -> dict[str, list[Worker]]:
        """Return the workers of each model that `tenancy` may use."""
        found: dict[str, list[Worker]] = {}
        for worker in self._registry:
            if tenancy is not None and not tenancy.may_use_worker(worker.pools, worker.models):
                continue
            for model in worker.models:
                if tenancy is None or tenancy.allows_model(model):
                    found.setdefault(model, []).append(worker)
        return found


def model_routes(listing: ModelListing, tenancy_of: Callable[[Request], TenantPolicy | None]) -> APIRouter:
    """Build `/v1/models` and `/v1/models/{model}`, in OpenAI's shape with vLLM's fields, or in Anthropic's.

    `tenancy_of`: a tenant is shown what it may use alone.
    """
    router = LazyRouter(tags=["gateway"])

    @router.get("/v1/models")
    async def models(request: Request) -> dict[str, Any]:
        """List every name that a request may ask for."""
        cards = listing.list_models(tenancy_of(request))
        if VERSION_HEADER in request.headers:
            return build_model_page(cards, decode_query(request.query_params, ModelPageQuery))
        return {"object": "list", "data": cards}

    @router.get("/v1/models/{model:path}")
    async def model(model: str, request: Request) -> dict[str, Any]:
        """Describe one model."""
        card = listing.describe_model(model, tenancy_of(request))
        return build_model_info(card) if VERSION_HEADER in request.headers else card

    return router


def _empty_card(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "radixway"}


def _model_card(name: str, workers: Iterable[Worker]) -> dict[str, Any]:
    """Return the first card that `workers` give of the model, with the context that each of them takes."""
    cards = [card for worker in workers if (card := worker.info.cards.get(name)) is not None]
    given = next((card.fields for card in cards), {})
    contexts = [card.max_model_len for card in cards if card.max_model_len is not None]
    return (
        _empty_card(name)
        | {"root": name, "parent": None, "max_model_len": None}
        | {field: value for field, value in given.items() if value is not None and field != "id"}
        | ({"max_model_len": min(contexts)} if contexts else {})
    )


def _alias_card(
    alias: str, card: Mapping[str, Any], split: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Return the `card` of a model under its `alias`; `root` names the model, `split` all of them."""
    more = {} if split is None else {"split": dict(split)}
    return {**card, "id": alias, "root": card["id"], **more}
