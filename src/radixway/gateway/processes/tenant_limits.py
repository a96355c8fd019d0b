"""Limits of tenants, exact over all children: the supervisor judges, each child asks it for each request."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from itertools import count
from time import time
from typing import Any

from radixway.core.config import ConfigError, RatesConfig
from radixway.core.config.tenants import TenantsConfig
from radixway.core.pipeline import LimitReachedError
from radixway.core.tenants.account import NOTHING, LimitsBackend, TenantAccount, UsageEstimate
from radixway.core.tenants.service import restore_usage, usage_path
from radixway.core.tenants.usage_ledger import UsageFile, day_of
from radixway.gateway.processes.control_messages import LimitsReply, LimitsRequest, UsageSettled


class LimitsAuthority:
    """The accounts of tenants with limits, in the supervisor. What a child holds ends with it."""

    def __init__(self, tenants: TenantsConfig, clock: Callable[[], float] = time) -> None:
        """`clock`: since the epoch."""
        self._clock = clock
        self._accounts: dict[str, TenantAccount] = {}
        self.set_tenants(tenants)
        self._held: dict[str, Counter[tuple[str, UsageEstimate]]] = {}
        """By child: what its running requests have reserved, by tenant."""

    def set_tenants(self, tenants: TenantsConfig) -> None:
        """Take up the limits of `tenants`; what is used and reserved stays."""
        for name, tenant in tenants.named.items():
            account = self._accounts.get(name)
            if account is None:
                account = self._accounts[name] = TenantAccount(name)
            account.set_limits(tenant.rates, tenant.quotas)
            account.estimates = True  # whatever the limits are when a request that is running now has ended

    def load_usage(self, tenants: TenantsConfig) -> None:
        """Read what was used before, where a file keeps it. Blocks. Raises ConfigError."""
        if not tenants.usage.persist:
            return
        path, now = usage_path(tenants), self._clock()
        try:
            with closing(UsageFile(path)) as file:
                restore_usage(self._accounts, file.read_rows(f"{day_of(now)[:7]}-01"), now)
        except (sqlite3.Error, ValueError, OSError) as error:
            raise ConfigError(f"tenants.usage.path: {path} cannot be used: {error}") from error

    def handle_message(self, child: str, message: LimitsRequest | UsageSettled) -> LimitsReply | None:
        """Return the reply to `message` of `child`; None to `UsageSettled`."""
        now = self._clock()
        if isinstance(message, LimitsRequest) and message.rates is not None:
            self._set_rates(message.tenant, message.rates)
        account = self._accounts[message.tenant]
        held = self._held.setdefault(child, Counter())
        if isinstance(message, UsageSettled):
            estimate = UsageEstimate(message.reserved_tokens, message.reserved_cost)
            if held[message.tenant, estimate]:
                held[message.tenant, estimate] -= 1
            else:  # it came in before its key had limits
                account.reserve_usage(now, estimate)
            account.settle_usage(now, estimate, message.tokens, message.cost)
            return None
        if message.only_used:
            used = {limit["name"]: float(limit["used"]) for limit in account.describe_limits(now)}
            return LimitsReply(message.number, used=used)
        estimate = UsageEstimate(message.tokens, message.cost)
        try:
            account.admit_request(now, estimate)
        except LimitReachedError as error:
            return LimitsReply(message.number, error.code, error.retry_after_s or 0)
        held[message.tenant, estimate] += 1
        return LimitsReply(message.number)

    def _set_rates(self, name: str, rates: tuple[int | None, int | None, int | None]) -> None:
        account = self._accounts.get(name)
        if account is None:
            account = self._accounts[name] = TenantAccount(name)
        if _rates_of(account) != rates:
            requests, tokens, concurrent = rates
            account.set_limits(
                RatesConfig(requests_per_minute=requests, tokens_per_minute=tokens, concurrent=concurrent),
                account.quotas,
            )
            account.estimates = True

    def release_child(self, child: str) -> None:
        """Release what the requests of `child`, which has ended, had reserved; what they used is unknown."""
        for (tenant, estimate), requests in self._held.pop(child, Counter()).items():
            for _ in range(requests):
                self._accounts[tenant].settle_usage(self._clock(), estimate, 0, 0.0)

    def check(self) -> None:
        """Raise AssertionError where the accounts do not agree with what children hold."""
        for tenant, account in self._accounts.items():
            account.check_reservations()
            held = sum(
                requests for of in self._held.values() for (name, _), requests in of.items() if name == tenant
            )
            assert account.in_flight == held, (tenant, account.in_flight, held)


def _rates_of(account: TenantAccount) -> tuple[int | None, int | None, int | None]:
    rates = account.rates
    return rates.requests_per_minute, rates.tokens_per_minute, rates.concurrent


class ProcessLimits(LimitsBackend):
    """Asks the supervisor for each request of a tenant with limits, in a child."""

    def __init__(self, send: Callable[[LimitsRequest | UsageSettled], None]) -> None:
        self._send = send
        self._numbers = count()
        self._judged: set[str] = set()
        """Names of accounts that the supervisor has. Limits of keys come and go while requests run."""
        self._pending: dict[int, asyncio.Future[LimitsReply]] = {}

    async def admit_request(
        self, account: TenantAccount, now: float, estimate: UsageEstimate = NOTHING
    ) -> None:
        if not account.is_limited:
            account.admit_request(now, estimate)
            return
        self._judged.add(account.tenant)
        request = LimitsRequest(
            next(self._numbers),
            account.tenant,
            estimate.tokens,
            estimate.cost,
            rates=None if account.owner_kind == "tenant" else _rates_of(account),
        )
        pending = self._ask(request)
        try:
            answer = await asyncio.shield(pending)
        except asyncio.CancelledError:
            pending.add_done_callback(
                lambda pending: self._release_reservation(account, estimate, pending.result())
            )
            raise
        if answer.limit is not None:
            raise account.count_refusal(now, answer.limit, answer.wait_s)
        account.reserve_usage(now, estimate)

    def settle_usage(
        self, account: TenantAccount, now: float, estimate: UsageEstimate, tokens: int, cost: float
    ) -> None:
        account.settle_usage(now, estimate, tokens, cost)
        if account.tenant in self._judged:
            self._send(UsageSettled(account.tenant, estimate.tokens, estimate.cost, tokens, cost))

    async def limits_of(self, account: TenantAccount, now: float) -> list[dict[str, Any]]:
        limits = account.describe_limits(now)
        if not limits:
            return limits
        request = LimitsRequest(next(self._numbers), account.tenant, only_used=True)
        used = (await self._ask(request)).used
        return [limit | {"used": type(limit["used"])(used[limit["name"]])} for limit in limits]

    def receive_reply(self, answer: LimitsReply) -> None:
        """Take in the supervisor's answer."""
        pending = self._pending.pop(answer.number)
        if not pending.done():
            pending.set_result(answer)

    def _ask(self, request: LimitsRequest) -> asyncio.Future[LimitsReply]:
        pending = self._pending[request.number] = asyncio.get_running_loop().create_future()
        self._send(request)
        return pending

    def _release_reservation(
        self, account: TenantAccount, estimate: UsageEstimate, answer: LimitsReply
    ) -> None:
        """Release what was reserved for a request whose client had left by then."""
        if answer.limit is None:
            self._send(UsageSettled(account.tenant, estimate.tokens, estimate.cost, 0, 0.0))
