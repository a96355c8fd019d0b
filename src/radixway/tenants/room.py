"""The room of a gateway: what its configuration says of tenants, put together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import date
from time import time
from typing import TYPE_CHECKING, Any

from radixway.component import Component
from radixway.config import (
    DEFAULT_TENANT,
    ConfigError,
    SharedLimitsSection,
    TenantSection,
    TenantsSection,
    radixway_home,
)
from radixway.pipeline import ANY_MODEL, Middleware, Tenancy, model_pattern
from radixway.telemetry import Metrics
from radixway.tenants.account import Account
from radixway.tenants.book import UsageBook, day_of, report
from radixway.tenants.home import InProcess, LimitsHome
from radixway.tenants.keeping import Keeping
from radixway.tenants.keys import KeyRing
from radixway.tenants.limits import Door, Limits
from radixway.tenants.metrics import publish_tenants
from radixway.tenants.prices import Prices, PricingOf
from radixway.tenants.salting import Salting

if TYPE_CHECKING:
    from radixway.tenants.shared import SharedLimits

log = logging.getLogger(__name__)


class TenantsRoom(Component):
    """Tenants, their accounts, and the book of what they used."""

    name = "tenants"

    def __init__(
        self,
        section: TenantsSection,
        ring: KeyRing,
        metrics: Metrics,
        clock: Callable[[], float] = time,
        shared: SharedLimitsSection | None = None,
    ) -> None:
        """`shared`: where limits of several gateways are kept. Raises ConfigError."""
        _check_currencies(section)
        named = {DEFAULT_TENANT: TenantSection()} | section.named
        usage = section.usage
        self.ring = ring
        self.tenancies = {name: _tenancy(name, tenant) for name, tenant in named.items()}
        self.accounts = {name: Account(name, each.rates, each.quotas) for name, each in named.items()}
        self.book = UsageBook(most_rows=usage.most_rows, keeps_deltas=usage.persist)
        self.keeping: Keeping | None = None
        if usage.persist:
            self.keeping = Keeping(
                self.book,
                (usage.path or radixway_home() / "usage.sqlite").expanduser(),
                flush_s=usage.flush_s,
                keep_days=usage.keep_days,
                clock=clock,
            )
        self.clock = clock
        self._shared = None if shared is None else _shared(shared, self.accounts, clock)
        self._home: LimitsHome = InProcess() if self._shared is None else self._shared
        self._pricing = section.pricing
        metrics.gauges(
            "radixway_tenant_limits_shared",
            "Whether tenants' limits are those of all gateways: 1, or 0 while the server is away",
            "over",
            lambda: [] if self._shared is None else [self._shared.state()],
            "min",
        )
        publish_tenants(metrics, self.accounts, self.book.totals)

    def middlewares(
        self, is_auto: Callable[[str], bool] | None = None, pricing_of: PricingOf = lambda model: None
    ) -> list[Middleware]:
        """First the limits, for the beginning of a road, then what belongs behind the semantic cache.

        `is_auto`: whether a name leaves the choice of a model to the gateway. `pricing_of`: models that the
        section gives no price.
        """
        prices = Prices(self._pricing, pricing_of)
        limits = Limits(
            self.accounts,
            self.book,
            prices,
            is_auto or (lambda model: model == ANY_MODEL),
            self.clock,
            self._home,
        )
        salted = any(each.cache_salt is not None for each in self.tenancies.values())
        return [limits, Salting()] if salted else [limits]

    def door(self) -> Middleware:
        """For the beginning of the road of sessions, whose limits are kept behind them."""
        return Door(self.accounts, self.clock)

    async def start(self) -> None:
        """Take up what was used before, and keep what is used from now on. Raises ConfigError."""
        if self.keeping is not None:
            await self.keeping.open()
            self._take_up()
        if self._shared is not None:
            await self._shared.start()

    async def stop(self) -> None:
        """Write down what was used, and give back what is held of limits."""
        try:
            if self._shared is not None:
                await self._shared.stop()
        finally:
            if self.keeping is not None:
                await self.keeping.close()

    def namespace_of(self, tenant: str) -> str:
        """Return the cache namespace of a tenant, by default its name."""
        known = self.tenancies.get(tenant)
        return tenant if known is None else known.cache_namespace or tenant

    def report(
        self, by: Collection[str], first: date, last: date, tenant: str | None
    ) -> list[dict[str, Any]]:
        """What was used from `first` to `last`, by fields of `UsageKey`."""
        return report(self.book.rows.items(), by, first=first, last=last, tenant=tenant)

    async def limits_of(self, tenant: str) -> list[dict[str, Any]]:
        """A tenant's limits, and how much of them is used."""
        return await self._home.limits_of(self.accounts[tenant], self.clock())

    def describe(self) -> dict[str, Any]:
        """For `/health`."""
        return (
            {"tenants": len(self.tenancies), "keys": len(self.ring)}
            | ({} if self.keeping is None else {"usage": self.keeping.describe()})
            | ({} if self._shared is None else {"limits": self._shared.describe()})
        )

    def _take_up(self) -> None:
        """Quotas go on from what the book has of this day and month."""
        now = self.clock()
        today = day_of(now)
        for key, figures in self.book.rows.items():
            account = self.accounts.get(key.tenant)
            if account is None or key.day[:7] != today[:7]:
                continue
            cost = figures.cost if key.currency == account.quotas.currency else 0.0
            tokens = figures.prompt_tokens + figures.completion_tokens
            account.take_up(now, tokens, cost, today=key.day == today)


def build_tenants(
    section: TenantsSection, metrics: Metrics, shared: SharedLimitsSection | None = None
) -> TenantsRoom | None:
    """The room, if anything is configured. `shared`: see `TenantsRoom`. Raises ConfigError."""
    if not section.is_on:
        if shared is not None:
            log.warning("scale.limits: there are no tenants whose limits could be shared")
        return None
    return TenantsRoom(section, KeyRing(section), metrics, shared=shared)


def _shared(
    section: SharedLimitsSection, accounts: Mapping[str, Account], clock: Callable[[], float]
) -> SharedLimits:
    try:
        from radixway.tenants.shared import SharedLimits
    except ModuleNotFoundError as error:
        needed = f"scale.limits.redis needs the package {error.name}: pip install 'radixway[redis]'"
        raise ConfigError(needed) from None
    return SharedLimits(section, accounts, clock)


def _tenancy(name: str, section: TenantSection) -> Tenancy:
    return Tenancy(
        name,
        model_pattern(section.models),
        frozenset(section.pools),
        section.cache_namespace or name,
        section.cache_salt.get_secret_value() if section.cache_salt else None,
        section.guard,
    )


def _check_currencies(section: TenantsSection) -> None:
    """Raises ConfigError: costs in one currency cannot be held against a quota in another."""
    for name, tenant in section.named.items():
        for model, pricing in section.pricing.items():
            if tenant.quotas.on_cost and pricing.currency != tenant.quotas.currency:
                raise ConfigError(
                    f"tenants.{name}.quotas.currency: is {tenant.quotas.currency}, and"
                    f" tenants.pricing.{model} in {pricing.currency}"
                )
