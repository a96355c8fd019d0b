"""The dearest price at which a request may be answered, which its budgets reserve while it runs."""

from collections.abc import Callable, Collection

from radixway.core.config import ModelPricing, RoutingConfig
from radixway.core.pipeline import ANY_MODEL, TenantPolicy
from radixway.core.tenants import PriceList
from radixway.routing import WorkerRegistry
from radixway.routing.transports.dispatch import iter_fallbacks

_MAX_PRICES = 1024
"""Prices that are remembered: names of models come from clients."""


class DearestPrices:
    """Prices by model, caller and currency, found once until workers or the semantic section change."""

    def __init__(
        self,
        config: RoutingConfig,
        registry: WorkerRegistry,
        prices: PriceList,
        is_auto: Callable[[str], bool],
        section: Callable[[], object],
        private_models: Collection[str] = (),
    ) -> None:
        """`prices` and `is_auto` (whether a name leaves the model to the gateway) depend on the `section` of
        that moment. `private_models`: the guard may have one of them answer in place of any other.
        """
        self._fallbacks = config.fallbacks
        others = () if config.overflow.to == "hosted" else (config.overflow.to,)
        self._stand_ins = (*others, *private_models)
        self._registry = registry
        self._prices = prices
        self._is_auto = is_auto
        self._section = section
        self._state: tuple[object, object] = (None, None)
        self._found: dict[tuple[str | None, TenantPolicy, str], ModelPricing | None] = {}

    def find_price(self, model: str | None, policy: TenantPolicy, currency: str) -> ModelPricing | None:
        """Return what a request of `policy` for `model` costs at most; None: nothing in `currency`."""
        known, section = self._registry.known_models(), self._section()
        if known is not self._state[0] or section is not self._state[1] or len(self._found) >= _MAX_PRICES:
            self._state = known, section
            self._found = {}
        asked = model, policy, currency
        if asked not in self._found:
            self._found[asked] = self._measure_price(model, policy, currency)
        return self._found[asked]

    def _measure_price(self, model: str | None, policy: TenantPolicy, currency: str) -> ModelPricing | None:
        known = self._registry.known_models()
        names: Collection[str | None] = known
        if model is not None and model != ANY_MODEL and not self._is_auto(model):
            names = {*iter_fallbacks(model, self._fallbacks), *self._stand_ins}
        found = [] if model in known else [self._prices.pricing_of(model or "")]
        for worker in self._registry:
            if not policy.may_use_worker(worker.pools, worker.models):
                continue
            for name in worker.models:
                if name in names and (policy.allows_model(name) or name in self._stand_ins):
                    own = None if worker.hosted is None else worker.hosted.pricing_of(name)
                    found.append(own or self._prices.pricing_of(name))
        priced = [pricing for pricing in found if pricing is not None and pricing.currency == currency]
        if not priced:
            return None
        return ModelPricing(
            currency=currency,
            prompt_per_1m=max(pricing.prompt_per_1m for pricing in priced),
            completion_per_1m=max(pricing.completion_per_1m for pricing in priced),
        )
