"""Where limits are kept: in this process, or where all gateways find them."""

from __future__ import annotations

from typing import Any, Protocol

from radixway.core.tenants.account import NOTHING, TenantAccount, UsageEstimate


class LimitsBackend(Protocol):
    """Lets requests in, and is told what became of them. `now` is seconds since the epoch."""

    async def admit_request(
        self, account: TenantAccount, now: float, estimate: UsageEstimate = NOTHING
    ) -> None:
        """Let a request in; one `settle` follows. Raises LimitReached."""
        ...

    def settle_usage(
        self, account: TenantAccount, now: float, estimate: UsageEstimate, tokens: int, cost: float
    ) -> None:
        """It is over, and has used so much. Never waits."""
        ...

    async def limits_of(self, account: TenantAccount, now: float) -> list[dict[str, Any]]:
        """Every limit of the tenant, and how much of it is used."""
        ...


class InProcessLimits:
    """This gateway's accounts are all there is."""

    async def admit_request(
        self, account: TenantAccount, now: float, estimate: UsageEstimate = NOTHING
    ) -> None:
        """See `LimitsBackend`."""
        account.admit_request(now, estimate)

    def settle_usage(
        self, account: TenantAccount, now: float, estimate: UsageEstimate, tokens: int, cost: float
    ) -> None:
        """See `LimitsBackend`."""
        account.settle_usage(now, estimate, tokens, cost)

    async def limits_of(self, account: TenantAccount, now: float) -> list[dict[str, Any]]:
        """See `LimitsBackend`."""
        return account.describe_limits(now)
