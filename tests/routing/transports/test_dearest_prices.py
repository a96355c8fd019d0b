"""The dearest price at which a request may be answered."""

from radixway.core.config import HostedWorkerSettings, ModelPricing, RoutingConfig, WorkerSettings
from radixway.core.pipeline import TenantPolicy
from radixway.core.pipeline.contexts import model_pattern
from radixway.core.tenants import PriceList
from radixway.routing import WorkerRegistry
from radixway.routing.transports.dearest_prices import DearestPrices

LISTED = {"own": ModelPricing(prompt_per_1m=1, completion_per_1m=9), "big": ModelPricing(prompt_per_1m=7)}
ANYONE = TenantPolicy("anyone")


def hosted(**pricing: float) -> HostedWorkerSettings:
    given = {"provider": "openai", "models": ["m", "n"], "pricing": {"m": pricing}}
    return HostedWorkerSettings.model_validate(given)


def dearest(registry: WorkerRegistry, **config: object) -> DearestPrices:
    section = RoutingConfig.model_validate(config)
    prices = PriceList(LISTED)
    return DearestPrices(section, registry, prices, "auto".__eq__, lambda: None, ["private"])


def test_it_is_found_again_when_workers_or_their_prices_change():
    registry = WorkerRegistry()
    prices = dearest(registry)

    def found(model: str | None = "auto", policy: TenantPolicy = ANYONE, currency: str = "USD"):
        pricing = prices.find_price(model, policy, currency)
        return None if pricing is None else (pricing.prompt_per_1m, pricing.completion_per_1m)

    assert found() is None and found("own") == (1, 9), "no worker is known yet"
    registry.add_worker(WorkerSettings(url="http://own:1", models=("own",)))
    assert found() == found(None) == (1, 9)
    registry.add_worker(hosted(prompt_per_1m=5, completion_per_1m=2))
    assert (found(), found("m"), found("n"), found("own")) == ((5, 9), (5, 2), None, (1, 9))
    registry.add_worker(hosted(prompt_per_1m=6))
    assert found() == (6, 9)
    assert found(currency="EUR") is None


def test_it_is_of_models_and_pools_that_the_caller_may_use():
    registry = WorkerRegistry()
    prices = dearest(registry)
    registry.add_worker(WorkerSettings(url="http://own:1", models=("own", "big"), pools=("here",)))
    registry.add_worker(hosted(prompt_per_1m=50))
    for policy, expected in {
        ANYONE: 50,
        TenantPolicy("a", pools=frozenset({"here"})): 7,
        TenantPolicy("b", model_pattern(["o*"])): 1,
    }.items():
        pricing = prices.find_price("auto", policy, "USD")
        assert pricing is not None and pricing.prompt_per_1m == expected, policy


def test_models_that_stand_in_for_one_count():
    registry = WorkerRegistry()
    registry.add_worker(WorkerSettings(url="http://own:1", models=("own", "cheap", "private")))
    registry.add_worker(WorkerSettings(url="http://big:1", models=("big",)))
    plain, falls = dearest(registry), dearest(registry, fallbacks={"cheap": "own", "own": "big"})
    overflows = dearest(registry, overflow={"to": "big"})
    found = [each.find_price("cheap", ANYONE, "USD") for each in (plain, falls, overflows)]
    assert [pricing and pricing.prompt_per_1m for pricing in found] == [None, 7, 7]
