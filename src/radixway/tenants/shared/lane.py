"""One tenant's way to the server: a step at a time, with all who wait by then."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from redis.asyncio import Redis

from radixway.config import SharedLimitsSection
from radixway.net.valkey import ERRORS
from radixway.tenants.account import NOTHING, Account, Estimate
from radixway.tenants.book import day_of
from radixway.tenants.shared import script


class _Waiting(NamedTuple):
    now: float
    estimate: Estimate
    verdict: asyncio.Future[Exception | None]
    """None: it is in, and stands in the account."""


class Lane:
    """Steps follow each other, so that what the account has in hand is exact when it is said.

    What was used is told in numbered portions: one whose answer was lost is told again under its number, and
    counted once.
    """

    def __init__(
        self,
        account: Account,
        redis: Redis,
        gateway: str,
        section: SharedLimitsSection,
        clock: Callable[[], float],
    ) -> None:
        """`gateway`: a name that no other process has, nor had. `clock`: since the epoch."""
        self._account = account
        self._section = section
        self._gateway = gateway
        self._clock = clock
        self._script = redis.register_script(script.STEP)
        self._limits = script.limits_in(account.rates, account.quotas)
        self._waiting: list[_Waiting] = []
        self._owed = Estimate()
        """What was used, and is in no portion yet."""
        self._portion = Estimate()
        self._number = 0
        self._changed = False
        """Places were given back that the server does not know of."""
        self._one = asyncio.Lock()
        self._stepping: asyncio.Task[None] | None = None

    @property
    def is_owed(self) -> bool:
        """The server has to be told something, or reminded of it."""
        return self._changed or self._portion != NOTHING or self._account.in_hand > 0

    async def admit(self, now: float, estimate: Estimate) -> None:
        """Let a request in. Raises LimitReached, and what a server that is away raises."""
        verdict: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(now, estimate, verdict))
        self.begin()
        try:
            refusal = await verdict
        except asyncio.CancelledError:
            if verdict.done() and not verdict.cancelled() and verdict.result() is None:
                self._account.settle(now, estimate, 0, 0.0)  # it was let in as it left
            self._changed = True
            raise
        if refusal is not None:
            raise refusal

    def owe(self, tokens: int, cost: float) -> None:
        """A request is over, and has used so much."""
        self._owed = Estimate(self._owed.tokens + tokens, self._owed.cost + cost)
        self._changed = True

    def begin(self, on_failure: Callable[[Exception], None] = lambda _: None) -> None:
        """Have the next step taken, unless one is under way, which looks for more at its end."""
        if self._stepping is None or self._stepping.done():
            self._stepping = asyncio.get_running_loop().create_task(self._go(on_failure))

    async def step(self) -> dict[str, float]:
        """Tell, ask, and answer those who wait; returns what is used of each limit, by its name.

        Raises what a server that is away raises; whoever waited is told the same.
        """
        async with self._one:
            waiting, self._waiting = self._waiting, []
            try:
                return await self._take(waiting)
            except BaseException as error:
                self._changed = True
                told = error if isinstance(error, ERRORS) else ConnectionError("nobody asked to the end")
                _answer(waiting, told)
                raise

    async def _go(self, on_failure: Callable[[Exception], None]) -> None:
        try:
            while self._waiting or self._changed:
                await self.step()
        except ERRORS as error:
            _answer(self._waiting, error)
            self._waiting = []
            on_failure(error)

    async def _take(self, waiting: list[_Waiting]) -> dict[str, float]:
        account = self._account
        if self._portion == NOTHING and self._owed != NOTHING:
            self._portion, self._owed = self._owed, NOTHING
            self._number += 1
        self._changed = False
        answer: Any = await self._script(
            keys=script.keys_of(self._section.prefix, account.tenant, day_of(self._clock())),
            args=[
                *(self._gateway, self._section.forget_after_s, self._number),
                *(account.in_hand, account.reserved_tokens, repr(account.reserved_cost)),
                *(self._portion.tokens, repr(self._portion.cost)),
                *self._limits,
                *script.wanted(each.estimate for each in waiting),
            ],
        )
        self._portion = NOTHING
        self._changed |= self._owed != NOTHING
        verdicts, used = script.read(answer)
        for each, verdict in zip(waiting, verdicts, strict=True):
            if each.verdict.done():
                self._changed = True  # it has left: what it got goes back with the next step
            elif verdict.limit is not None:
                each.verdict.set_result(account.refuse(each.now, verdict.limit, verdict.wait_s))
            else:
                account.take(each.now, each.estimate)
                each.verdict.set_result(None)
        return used


def _answer(waiting: Iterable[_Waiting], error: Exception) -> None:
    for each in waiting:
        if not each.verdict.done():
            each.verdict.set_result(error)
