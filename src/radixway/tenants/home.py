"""Where limits are kept: in this process, or where all gateways find them."""

from __future__ import annotations

from typing import Any, Protocol

from radixway.tenants.account import NOTHING, Account, Estimate


class LimitsHome(Protocol):
    """Lets requests in, and is told what became of them. `now` is seconds since the epoch."""

    async def admit(self, account: Account, now: float, estimate: Estimate = NOTHING) -> None:
        """Let a request in; one `settle` follows. Raises LimitReached."""
        ...

    def settle(self, account: Account, now: float, estimate: Estimate, tokens: int, cost: float) -> None:
        """It is over, and has used so much. Never waits."""
        ...

    async def limits_of(self, account: Account, now: float) -> list[dict[str, Any]]:
        """Every limit of the tenant, and how much of it is used."""
        ...


class InProcess:
    """This gateway's accounts are all there is."""

    async def admit(self, account: Account, now: float, estimate: Estimate = NOTHING) -> None:
        """See `LimitsHome`."""
        account.admit(now, estimate)

    def settle(self, account: Account, now: float, estimate: Estimate, tokens: int, cost: float) -> None:
        """See `LimitsHome`."""
        account.settle(now, estimate, tokens, cost)

    async def limits_of(self, account: Account, now: float) -> list[dict[str, Any]]:
        """See `LimitsHome`."""
        return account.describe(now)
