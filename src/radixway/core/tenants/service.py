"""TenantService: keys, policies, limits and usage of a gateway's tenants, put together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from radixway.core.component import Component
from radixway.core.config import DEFAULT_TENANT, ConfigError, radixway_home
from radixway.core.config.scale import SharedLimitsConfig
from radixway.core.config.tenants import TenantConfig, TenantsConfig
from radixway.core.pipeline import Middleware, TenantPolicy
from radixway.core.pipeline.contexts import model_pattern
from radixway.core.telemetry import MetricsRegistry
from radixway.core.tenants.account import LimitsBackend, TenantAccount
from radixway.core.tenants.keys import KeyRing
from radixway.core.tenants.middlewares import CacheSalting, SessionAdmission, TenantLimits
from radixway.core.tenants.pricing import DearestPrice, PriceList
from radixway.core.tenants.usage_ledger import (
    UsageKey,
    UsageLedger,
    UsageTotals,
    UsageWriter,
    day_of,
    summarize_usage,
)

if TYPE_CHECKING:
    from radixway.core.tenants.shared_limits import SharedLimits

log = logging.getLogger(__name__)


class TenantService(Component):
    """Tenants, their accounts, and the ledger of their usage."""

    name = "tenants"

    def __init__(
        self,
        section: TenantsConfig,
        ring: KeyRing,
        metrics: MetricsRegistry,
        shared: SharedLimitsConfig | None = None,
        limits: LimitsBackend | None = None,
        *,
        reads_usage_file: bool = False,
        has_store: bool = False,
    ) -> None:
        """`shared`: where limits of several gateways are kept. `limits`: judges where that is None, by
        default by this process's accounts. `reads_usage_file`: other processes write to it, so that reports
        read it. `has_store`: keys and teams are added at run time (`set_teams`); until there are any, and
        where `section` configures nothing, there are no tenants, and nothing is counted.

        Raises ConfigError.
        """
        _check_currencies(section)
        named = {DEFAULT_TENANT: TenantConfig()} | section.named if section.is_on else {}
        self.has_store = has_store
        self.configured = frozenset(named)
        """Tenants of the configuration; a stored team of the same name gives way to them."""
        usage = section.usage
        self.ring = ring
        self.tenancies = {name: _build_tenant_policy(name, tenant) for name, tenant in named.items()}
        self.accounts = {
            name: TenantAccount(name, given.rates, given.quotas) for name, given in named.items()
        }
        self.ledger = UsageLedger(max_rows=usage.most_rows, keeps_deltas=usage.persist)
        self.keeping: UsageWriter | None = None
        self._reads_usage_file = reads_usage_file
        if usage.persist:
            self.keeping = UsageWriter(
                self.ledger,
                usage_path(section),
                flush_s=usage.flush_s,
                keep_days=usage.keep_days,
                clock=time,
            )
        self._shared = None if shared is None else _build_shared_limits(shared, self.accounts)
        self._limits: LimitsBackend | None = self._shared or limits
        """Where limits are kept, if not in this process alone."""
        metrics.gauges(
            "radixway_tenant_limits_shared",
            "Whether tenants' limits are those of all gateways: 1, or 0 while the server is unavailable",
            "over",
            lambda: [] if self._shared is None else [(self._shared.name, float(not self._shared.problem))],
            "min",
        )
        self._steps = metrics.steps
        publish_tenants(metrics, self.accounts, self.ledger)

    def middlewares(
        self, prices: PriceList, dearest_price: DearestPrice, is_auto: Callable[[str], bool]
    ) -> list[Middleware]:
        """Return the limits, for the beginning of a pipeline, and what belongs behind the semantic cache.

        The arguments: see `TenantLimits`.
        """
        limits = TenantLimits(
            self.accounts, self.ledger, prices, dearest_price, is_auto, self._steps, shared=self._limits
        )
        salted = any(tenancy.cache_salt is not None for tenancy in self.tenancies.values())
        return [limits, CacheSalting()] if salted else [limits]

    def set_teams(self, teams: Mapping[str, Collection[str]]) -> None:
        """Add tenants made at run time, by the models that each may use; those that are gone, go.

        Limits of theirs are their accounts' (`budgets`). A request of a team that goes is settled.
        """
        wanted = {DEFAULT_TENANT: (), **teams}
        for name, models in wanted.items():
            if name in self.configured:
                continue
            pattern = model_pattern(models)
            known = self.tenancies.get(name)
            if known is None or known.models != pattern:
                self.tenancies[name] = _build_tenant_policy(name, TenantConfig(models=tuple(models)))
            self.accounts.setdefault(name, TenantAccount(name))
        for name in self.tenancies.keys() - self.configured - wanted.keys():
            del self.tenancies[name]  # its account stays: requests of it may be running

    def session_admission(self) -> Middleware:
        """Return the admission for pipelines of sessions, whose limits are kept behind them."""
        return SessionAdmission(self.accounts)

    async def start(self) -> None:
        """Take up what was used before, and keep what is used from now on. Raises ConfigError."""
        if self.keeping is not None:
            await self.keeping.load_ledger()
            restore_usage(self.accounts, self.ledger.rows.items(), time())
        if self._shared is not None:
            await self._shared.start()

    async def stop(self) -> None:
        """Write down what was used, and give back what is held of limits."""
        try:
            if self._shared is not None:
                await self._shared.stop()
        finally:
            if self.keeping is not None:
                await self.keeping.flush_and_close()

    def namespace_of(self, tenant: str) -> str:
        """Return the cache namespace of a tenant, by default its name."""
        known = self.tenancies.get(tenant)
        return tenant if known is None else known.cache_namespace or tenant

    async def usage_report(
        self, by: Collection[str], first: date, last: date, tenant: str | None
    ) -> list[dict[str, Any]]:
        """Return the usage from `first` to `last`, by fields of `UsageKey`."""
        rows: Iterable[tuple[UsageKey, UsageTotals]] = self.ledger.rows.items()
        if self._reads_usage_file and self.keeping is not None:
            rows = await self.keeping.read_all(first.isoformat())
        return summarize_usage(rows, by, first=first, last=last, tenant=tenant)

    async def limits_of(self, tenant: str) -> list[dict[str, Any]]:
        """A tenant's limits, and how much of them is used."""
        account = self.accounts[tenant]
        if self._limits is not None:
            return await self._limits.limits_of(account, time())
        return account.describe_limits(time())

    def describe(self) -> dict[str, Any]:
        return (
            {"tenants": len(self.tenancies), "keys": len(self.ring)}
            | ({} if self.keeping is None else {"usage": self.keeping.describe()})
            | ({} if self._shared is None else {"limits": self._shared.describe()})
        )


def usage_path(section: TenantsConfig) -> Path:
    """Return the path of the file of usage."""
    return (section.usage.path or radixway_home() / "usage.sqlite").expanduser()


def restore_usage(
    accounts: Mapping[str, TenantAccount], rows: Iterable[tuple[UsageKey, UsageTotals]], now: float
) -> None:
    """Count into `accounts` what `rows` say was used today and in this month."""
    today = day_of(now)
    for key, figures in rows:
        account = accounts.get(key.tenant)
        if account is None or key.day[:7] != today[:7]:
            continue
        cost = figures.cost if key.currency == account.quotas.currency else 0.0
        tokens = figures.prompt_tokens + figures.completion_tokens
        account.restore_usage(now, tokens, cost, today=key.day == today)


def build_tenant_service(
    section: TenantsConfig,
    metrics: MetricsRegistry,
    shared: SharedLimitsConfig | None = None,
    limits: LimitsBackend | None = None,
    *,
    reads_usage_file: bool = False,
    has_store: bool = False,
) -> TenantService | None:
    """Return the service, if anything is configured or there is a store.

    The other arguments: see `TenantService`. Raises ConfigError.
    """
    if not section.is_on and not has_store:
        if shared is not None:
            log.warning("scale.limits: there are no tenants whose limits could be shared")
        return None
    ring = KeyRing(section)
    return TenantService(
        section, ring, metrics, shared, limits, reads_usage_file=reads_usage_file, has_store=has_store
    )


def _build_shared_limits(section: SharedLimitsConfig, accounts: Mapping[str, TenantAccount]) -> SharedLimits:
    try:
        from radixway.core.tenants.shared_limits import SharedLimits
    except ModuleNotFoundError as error:
        needed = f"scale.limits.redis needs the package {error.name}: pip install 'radixway[redis]'"
        raise ConfigError(needed) from None
    return SharedLimits(section, accounts, time)


def _build_tenant_policy(name: str, section: TenantConfig) -> TenantPolicy:
    return TenantPolicy(
        name,
        model_pattern(section.models),
        frozenset(section.pools),
        section.cache_namespace or name,
        section.cache_salt.get_secret_value() if section.cache_salt else None,
        section.guard,
    )


def _check_currencies(section: TenantsConfig) -> None:
    """Check that costs and quotas have one currency. Raises ConfigError."""
    for name, tenant in section.named.items():
        for model, pricing in section.pricing.items():
            if tenant.quotas.has_cost_quota and pricing.currency != tenant.quotas.currency:
                raise ConfigError(
                    f"tenants.{name}.quotas.currency: is {tenant.quotas.currency}, and"
                    f" tenants.pricing.{model} in {pricing.currency}"
                )


Children = Iterator[tuple[tuple[str, ...], float]]


def publish_tenants(
    metrics: MetricsRegistry,
    accounts: Mapping[str, TenantAccount],
    ledger: UsageLedger,
) -> None:
    """Publish counts of `accounts` and `ledger` since the start."""

    def whole() -> Iterator[tuple[tuple[str, str], UsageTotals]]:
        by_model: dict[tuple[str, str], UsageTotals] = {}
        for (tenant, model, _), figures in ledger.totals.items():
            by_model.setdefault((tenant, model), UsageTotals()).add_totals(figures)
        yield from by_model.items()

    def requests() -> Children:
        for labels, figures in whole():
            answered = figures.requests - figures.failed - figures.kept_answers
            yield (*labels, "answered"), answered
            yield (*labels, "kept_answer"), figures.kept_answers
            yield (*labels, "failed"), figures.failed

    def tokens() -> Children:
        for labels, figures in whole():
            yield (*labels, "prompt"), figures.prompt_tokens
            yield (*labels, "cached"), figures.cached_tokens
            yield (*labels, "completion"), figures.completion_tokens

    def cost() -> Children:
        for labels, figures in ledger.totals.items():
            if labels[2]:
                yield labels, figures.cost

    def refused() -> Children:
        for tenant, account in accounts.items():
            for limit, count in account.refused.items():
                yield (tenant, limit), count

    counters = metrics.counters_by
    counters("radixway_tenant_requests", "Requests of tenants", ("tenant", "model", "outcome"), requests)
    counters("radixway_tenant_tokens", "Tokens of tenants' requests", ("tenant", "model", "kind"), tokens)
    counters("radixway_tenant_cost", "What tenants' tokens cost", ("tenant", "model", "currency"), cost)
    counters("radixway_tenant_refused", "Requests of tenants over a limit", ("tenant", "limit"), refused)
    metrics.gauges(
        "radixway_tenant_in_hand",
        "Requests in flight",
        "tenant",
        lambda: [(tenant, account.in_flight) for tenant, account in accounts.items()],
    )
