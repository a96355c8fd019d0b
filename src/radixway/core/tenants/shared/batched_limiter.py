"""One tenant's way to the server: a step at a time, with all who wait by then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from redis.asyncio import Redis

from radixway.core.config import SharedLimitsConfig
from radixway.core.net.valkey import ERRORS
from radixway.core.tenants.account import NOTHING, TenantAccount, UsageEstimate
from radixway.core.tenants.shared import script
from radixway.core.tenants.usage_ledger import day_of


class _WaitingRequest(NamedTuple):
    now: float
    estimate: UsageEstimate
    verdict: asyncio.Future[Exception | None]
    """None: it is in, and stands in the account."""


class BatchedLimiter:
    """Steps follow each other, so that what the account has in hand is exact when it is said.

    What was used is told in numbered portions: one whose answer was lost is told again under its number, and
    counted once.
    """

    def __init__(
        self,
        account: TenantAccount,
        redis: Redis,
        gateway: str,
        section: SharedLimitsConfig,
        clock: Callable[[], float],
    ) -> None:
        """`gateway`: a name that no other process has, nor had. `clock`: since the epoch."""
        self._account = account
        self._section = section
        self._gateway = gateway
        self._clock = clock
        self._script = redis.register_script(script.STEP)
        self._limits = script.limit_arguments(account.rates, account.quotas)
        self._waiting: list[_WaitingRequest] = []
        self._owed = UsageEstimate()
        """What was used, and is in no portion yet."""
        self._portion = UsageEstimate()
        self._number = 0
        self._changed = False
        """Places were given back that the server does not know of."""
        self._one = asyncio.Lock()
        self._stepping: asyncio.Task[None] | None = None

    @property
    def has_unsent_usage(self) -> bool:
        """The server has to be told something, or reminded of it."""
        return self._changed or self._portion != NOTHING or self._account.in_hand > 0

    async def admit_request(self, now: float, estimate: UsageEstimate) -> None:
        """Let a request in. Raises LimitReached, and what a server that is away raises."""
        verdict: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_WaitingRequest(now, estimate, verdict))
        self.start_step()
        try:
            refusal = await verdict
        except asyncio.CancelledError:
            if verdict.done() and not verdict.cancelled() and verdict.result() is None:
                self._account.settle_usage(now, estimate, 0, 0.0)  # it was let in as it left
            self._changed = True
            raise
        if refusal is not None:
            raise refusal

    def add_usage(self, tokens: int, cost: float) -> None:
        """Add the `tokens` and `cost` of a request that is over."""
        self._owed = UsageEstimate(self._owed.tokens + tokens, self._owed.cost + cost)
        self._changed = True

    def start_step(self, on_failure: Callable[[Exception], None] = lambda _: None) -> None:
        """Have the next step taken, unless one is under way, which looks for more at its end."""
        if self._stepping is None or self._stepping.done():
            self._stepping = asyncio.get_running_loop().create_task(self._run_steps(on_failure))

    async def run_step(self) -> dict[str, float]:
        """Tell, ask, and answer those who wait; returns what is used of each limit, by its name.

        Raises what a server that is away raises; whoever waited is told the same.
        """
        async with self._one:
            waiting, self._waiting = self._waiting, []
            try:
                return await self._exchange_step(waiting)
            except BaseException as error:
                self._changed = True
                told = error if isinstance(error, ERRORS) else ConnectionError("nobody asked to the end")
                _fail_waiting(waiting, told)
                raise

    async def _run_steps(self, on_failure: Callable[[Exception], None]) -> None:
        try:
            while self._waiting or self._changed:
                await self.run_step()
        except ERRORS as error:
            _fail_waiting(self._waiting, error)
            self._waiting = []
            on_failure(error)

    async def _exchange_step(self, waiting: list[_WaitingRequest]) -> dict[str, float]:
        account = self._account
        if self._portion == NOTHING and self._owed != NOTHING:
            self._portion, self._owed = self._owed, NOTHING
            self._number += 1
        self._changed = False
        answer: Any = await self._script(
            keys=script.tenant_keys(self._section.prefix, account.tenant, day_of(self._clock())),
            args=[
                *(self._gateway, self._section.forget_after_s, self._number),
                *(account.in_hand, account.reserved_tokens, repr(account.reserved_cost)),
                *(self._portion.tokens, repr(self._portion.cost)),
                *self._limits,
                *script.estimate_arguments(each.estimate for each in waiting),
            ],
        )
        self._portion = NOTHING
        self._changed |= self._owed != NOTHING
        verdicts, used = script.parse_step_reply(answer)
        for each, verdict in zip(waiting, verdicts, strict=True):
            if each.verdict.done():
                self._changed = True  # it has left: what it got goes back with the next step
            elif verdict.limit is not None:
                each.verdict.set_result(account.count_refusal(each.now, verdict.limit, verdict.wait_s))
            else:
                account.reserve_usage(each.now, each.estimate)
                each.verdict.set_result(None)
        return used


def _fail_waiting(waiting: Iterable[_WaitingRequest], error: Exception) -> None:
    for each in waiting:
        if not each.verdict.done():
            each.verdict.set_result(error)
