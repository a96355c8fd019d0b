"""LimitsBackend: keeps limits in this process, or where all gateways find them."""

from __future__ import annotations

from typing import Any, Protocol

from radixway.core.tenants.account import NOTHING, TenantAccount, UsageEstimate


class LimitsBackend(Protocol):
    """Lets requests in, and is told what became of them. `now` is seconds since the epoch."""

    async def admit_request(
        self, account: TenantAccount, now: float, estimate: UsageEstimate = NOTHING
    ) -> None:
        """Let a request in and reserve `estimate`; one `settle_usage` follows. Raises LimitReachedError."""
        ...

    def settle_usage(
        self, account: TenantAccount, now: float, estimate: UsageEstimate, tokens: int, cost: float
    ) -> None:
        """Replace the `estimate` of a request that is over by its `tokens` and `cost`. Never waits."""
        ...

    async def limits_of(self, account: TenantAccount, now: float) -> list[dict[str, Any]]:
        """Return every limit of `account`, and how much of it is used."""
        ...


class InProcessLimits:
    """This gateway's accounts are all there is."""

    async def admit_request(
        self, account: TenantAccount, now: float, estimate: UsageEstimate = NOTHING
    ) -> None:
        """Implement `LimitsBackend`."""
        account.admit_request(now, estimate)

    def settle_usage(
        self, account: TenantAccount, now: float, estimate: UsageEstimate, tokens: int, cost: float
    ) -> None:
        """Implement `LimitsBackend`."""
        account.settle_usage(now, estimate, tokens, cost)

    async def limits_of(self, account: TenantAccount, now: float) -> list[dict[str, Any]]:
        """Implement `LimitsBackend`."""
        return account.describe_limits(now)
