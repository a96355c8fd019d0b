"""Limits of all gateways together, over Valkey or Redis; of this one alone while the server is away."""

import asyncio
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from redis.asyncio import Redis

from radixway.bundled import read_text
from radixway.core.component import Component
from radixway.core.config import ConfigError, QuotasConfig, RatesConfig
from radixway.core.config.scale import SharedLimitsConfig
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.net.valkey import ERRORS, connect_valkey
from radixway.core.pipeline import LimitReachedError
from radixway.core.tenants.account import NOTHING, LimitsBackend, TenantAccount, UsageEstimate
from radixway.core.tenants.usage_ledger import day_of

log = logging.getLogger(__name__)

LIMITS = (
    "concurrent",
    "requests_per_minute",
    "tokens_per_minute",
    "tokens_per_day",
    "cost_per_day",
    "tokens_per_month",
    "cost_per_month",
)
"""Limits in the order of checks."""

STEP = read_text("tenant_limits.lua")


def tenant_keys(prefix: str, tenant: str, day: str) -> list[str]:
    """The server's keys; all of a tenant's in one slot of a cluster. `day`: UTC, as 2026-11-21."""
    home = f"{prefix}{{{tenant}}}:"
    return [
        f"{home}{name}" for name in ("requests", "tokens", f"day:{day}", f"month:{day[:7]}", "hands", "seen")
    ]


def limit_arguments(rates: RatesConfig, quotas: QuotasConfig) -> list[str]:
    """Return `rates` and `quotas` as the script reads them, in the order of `LIMITS`."""
    found: dict[str, float | None] = rates.model_dump() | quotas.model_dump(exclude={"currency"})
    return ["" if found[name] is None else repr(found[name]) for name in LIMITS]


def parse_step_reply(
    answer: Sequence[Sequence[bytes | int]],
) -> tuple[list[tuple[str | None, int]], dict[str, float]]:
    """Parse the script's reply: who gets in, and what is used of each limit.

    For each who waits, in their order: the limit that it is over (None: it is in), and, for windows, the
    seconds until there is room.
    """
    told, sums = answer
    verdicts = [
        (LIMITS[int(which) - 1] if which else None, int(wait_s))
        for which, wait_s in zip(told[::2], told[1::2], strict=True)
    ]
    return verdicts, {name: float(sum_) for name, sum_ in zip(LIMITS, sums, strict=True)}


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
        self._script = redis.register_script(STEP)
        self._limits = limit_arguments(account.rates, account.quotas)
        self._waiting: list[_WaitingRequest] = []
        self._owed = UsageEstimate()
        """Usage that is in no reservation yet."""
        self._portion = UsageEstimate()
        self._number = 0
        self._changed = False
        """Reservations were returned that the server does not know of."""
        self._one = asyncio.Lock()
        self._stepping: asyncio.Task[None] | None = None

    @property
    def has_unsent_usage(self) -> bool:
        """The server has to be told something, or reminded of it."""
        return self._changed or self._portion != NOTHING or self._account.in_hand > 0

    async def admit_request(self, now: float, estimate: UsageEstimate) -> None:
        """Let a request in. Raises LimitReachedError, and what a server that is away raises."""
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
        """Send usage, judge those who wait; return what is used of each limit. Raises what `ERRORS` has."""
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
            keys=tenant_keys(self._section.prefix, account.tenant, day_of(self._clock())),
            args=[
                *(self._gateway, self._section.forget_after_s, self._number),
                *(account.in_hand, account.reserved_tokens, repr(account.reserved_cost)),
                *(self._portion.tokens, repr(self._portion.cost)),
                *self._limits,
                *(text for each in waiting for text in (each.estimate.tokens, repr(each.estimate.cost))),
            ],
        )
        self._portion = NOTHING
        self._changed |= self._owed != NOTHING
        verdicts, used = parse_step_reply(answer)
        for each, (limit, wait_s) in zip(waiting, verdicts, strict=True):
            if each.verdict.done():
                self._changed = True  # it has left: what it got goes back with the next step
            elif limit is not None:
                each.verdict.set_result(account.count_refusal(each.now, limit, wait_s))
            else:
                account.reserve_usage(each.now, each.estimate)
                each.verdict.set_result(None)
        return used


def _fail_waiting(waiting: Iterable[_WaitingRequest], error: Exception) -> None:
    for each in waiting:
        if not each.verdict.done():
            each.verdict.set_result(error)


_PAUSE_S = 1.0
"""Pause after a server did not answer."""
_FINAL_STEP_TIMEOUT_S = 0.5


class SharedLimits(Component, LimitsBackend):
    """Every account is judged by the server, one step at a time for each
    (`BatchedLimiter`).

    The account in this process is kept besides: it is what holds while the server is away, which costs no
    request more than `timeout_s`.
    """

    name = "valkey"

    def __init__(
        self, section: SharedLimitsConfig, accounts: Mapping[str, TenantAccount], clock: Callable[[], float]
    ) -> None:
        """`clock`: since the epoch. Raises ConfigError."""
        self._section = section
        self._away_until = 0.0
        self.problem: str | None = None
        """Why limits are this gateway's alone now."""
        try:
            self._redis = connect_valkey(
                section.redis.get_secret_value(), answer_s=section.timeout_s, connect_s=section.timeout_s
            )
        except ValueError as error:
            raise ConfigError(f"scale.limits.redis: {error}") from None
        self._renewing: asyncio.Task[None]
        gateway = uuid.uuid4().hex
        self._lanes = {
            name: BatchedLimiter(account, self._redis, gateway, section, clock)
            for name, account in accounts.items()
            if account.is_limited
        }

    async def start(self) -> None:
        """Renew what is in hand from now on."""
        self._renewing = asyncio.create_task(self._renew_reservations(), name="limits of all gateways")

    async def stop(self) -> None:
        """Tell what was used, and give all places back."""
        await cancel_tasks([self._renewing])
        try:
            async with asyncio.timeout(_FINAL_STEP_TIMEOUT_S):
                await asyncio.gather(
                    *(lane.run_step() for lane in self._lanes.values() if lane.has_unsent_usage)
                )
        except ERRORS as error:
            self._mark_server_down(error)
        await self._redis.aclose()

    async def admit_request(
        self, account: TenantAccount, now: float, estimate: UsageEstimate = NOTHING
    ) -> None:
        lane = self._lanes.get(account.tenant)
        if lane is None or self._is_away:
            account.admit_request(now, estimate)
            return
        try:
            await lane.admit_request(now, estimate)
        except ERRORS as error:
            self._mark_server_down(error)
            account.admit_request(now, estimate)
        except LimitReachedError:
            self.problem = None
            raise
        else:
            self.problem = None

    def settle_usage(
        self, account: TenantAccount, now: float, estimate: UsageEstimate, tokens: int, cost: float
    ) -> None:
        account.settle_usage(now, estimate, tokens, cost)
        lane = self._lanes.get(account.tenant)
        if lane is not None:
            lane.add_usage(tokens, cost)
            if not self._is_away:
                lane.start_step(self._mark_server_down)

    async def limits_of(self, account: TenantAccount, now: float) -> list[dict[str, Any]]:
        told = account.describe_limits(now)
        lane = self._lanes.get(account.tenant)
        if lane is None or self._is_away:
            return told
        try:
            used = await asyncio.shield(asyncio.ensure_future(lane.run_step()))
        except ERRORS as error:
            self._mark_server_down(error)
            return told
        return [each | {"used": type(each["used"])(round(used[each["name"]], 9))} for each in told]

    def describe(self) -> dict[str, Any]:
        return {"over": self.name, "state": "down" if self.problem else "ok", "problem": self.problem}

    @property
    def _is_away(self) -> bool:
        return asyncio.get_running_loop().time() < self._away_until

    def _mark_server_down(self, error: Exception) -> None:
        if self.problem is None:
            log.warning("limits are this gateway's alone: valkey: %s", error or type(error).__name__)
        self.problem = str(error) or type(error).__name__
        self._away_until = asyncio.get_running_loop().time() + _PAUSE_S

    async def _renew_reservations(self) -> None:
        """Renew reservations before they expire, and report late usage."""
        while True:
            try:
                for lane in self._lanes.values():
                    if lane.has_unsent_usage:
                        await lane.run_step()
                if self.problem is not None:
                    await next(iter(self._lanes.values())).run_step()
                    log.info("limits are all gateways' again")
                self.problem = None
            except ERRORS as error:
                self._mark_server_down(error)
            await asyncio.sleep(_PAUSE_S if self.problem else self._section.forget_after_s / 3)
