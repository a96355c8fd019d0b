"""Limits shared by all gateways over Valkey or Redis; local ones while the server is unavailable."""

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
    """Parse the script's reply: which requests are admitted, and the usage of each limit.

    For each waiting request, in order: the limit that it exceeds (None: it is admitted), and, for windows,
    the seconds until it would fit.
    """
    decisions, sums = answer
    verdicts = [
        (LIMITS[int(which) - 1] if which else None, int(wait_s))
        for which, wait_s in zip(decisions[::2], decisions[1::2], strict=True)
    ]
    return verdicts, {name: float(sum_) for name, sum_ in zip(LIMITS, sums, strict=True)}


class _WaitingRequest(NamedTuple):
    now: float
    estimate: UsageEstimate
    verdict: asyncio.Future[Exception | None]
    """None: it is in, and stands in the account."""


class BatchedLimiter:
    """Steps follow each other, so that the account's in-flight figures are exact when they are sent.

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
        self._limits_of: tuple[RatesConfig, QuotasConfig] | None = None
        self._limits: list[str] = []
        """Arguments of the script for `_limits_of`."""
        self._waiting: list[_WaitingRequest] = []
        self._unsent = UsageEstimate()
        """Usage that is in no reservation yet."""
        self._sending = UsageEstimate()
        self._number = 0
        self._changed = False
        """Reservations were returned that the server does not know of."""
        self._step_lock = asyncio.Lock()
        self._stepping: asyncio.Task[None] | None = None

    @property
    def has_unsent_usage(self) -> bool:
        """The server has to be told something, or reminded of it."""
        return self._changed or self._sending != NOTHING or self._account.in_flight > 0

    async def admit_request(self, now: float, estimate: UsageEstimate) -> None:
        """Let a request in. Raises LimitReachedError, and `ERRORS` where the server is unavailable."""
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
        self._unsent = UsageEstimate(self._unsent.tokens + tokens, self._unsent.cost + cost)
        self._changed = True

    def start_step(self, on_failure: Callable[[Exception], None] = lambda _: None) -> None:
        """Start the next step, unless one is running: it takes the new usage along at its end."""
        if self._stepping is None or self._stepping.done():
            self._stepping = asyncio.get_running_loop().create_task(self._run_steps(on_failure))

    async def run_step(self) -> dict[str, float]:
        """Send usage, judge the waiting requests; return each limit's usage. Raises what `ERRORS` has."""
        async with self._step_lock:
            waiting, self._waiting = self._waiting, []
            try:
                return await self._exchange_step(waiting)
            except BaseException as error:
                self._changed = True
                outage = error if isinstance(error, ERRORS) else ConnectionError("the step was cancelled")
                _fail_waiting(waiting, outage)
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
        if self._sending == NOTHING and self._unsent != NOTHING:
            self._sending, self._unsent = self._unsent, NOTHING
            self._number += 1
        self._changed = False
        if self._limits_of != (account.rates, account.quotas):  # a key's change while the gateway runs
            self._limits_of = account.rates, account.quotas
            self._limits = limit_arguments(*self._limits_of)
        answer: Any = await self._script(
            keys=tenant_keys(self._section.prefix, account.tenant, day_of(self._clock())),
            args=[
                *(self._gateway, self._section.forget_after_s, self._number),
                *(account.in_flight, account.reserved_tokens, repr(account.reserved_cost)),
                *(self._sending.tokens, repr(self._sending.cost)),
                *self._limits,
                *(text for one in waiting for text in (one.estimate.tokens, repr(one.estimate.cost))),
            ],
        )
        self._sending = NOTHING
        self._changed |= self._unsent != NOTHING
        verdicts, used = parse_step_reply(answer)
        for request, (limit, wait_s) in zip(waiting, verdicts, strict=True):
            if request.verdict.done():
                self._changed = True  # it has left: what it got goes back with the next step
            elif limit is not None:
                request.verdict.set_result(account.count_refusal(request.now, limit, wait_s))
            else:
                account.reserve_usage(request.now, request.estimate)
                request.verdict.set_result(None)
        return used


def _fail_waiting(waiting: Iterable[_WaitingRequest], error: Exception) -> None:
    for request in waiting:
        if not request.verdict.done():
            request.verdict.set_result(error)


_PAUSE_S = 1.0
"""Pause after a server did not answer."""
_FINAL_STEP_TIMEOUT_S = 0.5


class SharedLimits(Component, LimitsBackend):
    """Every account is judged by the server, one step at a time for each
    (`BatchedLimiter`).

    The account in this process is kept up to date too: it applies while the server is unavailable, which
    delays no request by more than `timeout_s`.
    """

    name = "valkey"

    def __init__(
        self, section: SharedLimitsConfig, accounts: Mapping[str, TenantAccount], clock: Callable[[], float]
    ) -> None:
        """`clock`: since the epoch. Raises ConfigError."""
        self._section = section
        self._down_until = 0.0
        self.problem: str | None = None
        """Why only this gateway's own limits apply now; None while the server answers."""
        try:
            self._redis = connect_valkey(
                section.redis.get_secret_value(), answer_s=section.timeout_s, connect_s=section.timeout_s
            )
        except ValueError as error:
            raise ConfigError(f"scale.limits.redis: {error}") from None
        self._renewing: asyncio.Task[None]
        self._gateway = uuid.uuid4().hex
        self._clock = clock
        self._limiters: dict[str, BatchedLimiter] = {}
        for account in accounts.values():
            self._limiter_of(account)

    async def start(self) -> None:
        """Start renewing the reservations of running requests."""
        self._renewing = asyncio.create_task(self._renew_reservations(), name="limits of all gateways")

    async def stop(self) -> None:
        """Send the remaining usage, and release all reservations."""
        await cancel_tasks([self._renewing])
        try:
            async with asyncio.timeout(_FINAL_STEP_TIMEOUT_S):
                await asyncio.gather(
                    *(limiter.run_step() for limiter in self._limiters.values() if limiter.has_unsent_usage)
                )
        except ERRORS as error:
            self._mark_server_down(error)
        await self._redis.aclose()

    async def admit_request(
        self, account: TenantAccount, now: float, estimate: UsageEstimate = NOTHING
    ) -> None:
        limiter = self._limiter_of(account)
        if limiter is None or self._is_down:
            account.admit_request(now, estimate)
            return
        try:
            await limiter.admit_request(now, estimate)
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
        limiter = self._limiter_of(account)
        if limiter is not None:
            limiter.add_usage(tokens, cost)
            if not self._is_down:
                limiter.start_step(self._mark_server_down)

    async def limits_of(self, account: TenantAccount, now: float) -> list[dict[str, Any]]:
        limits = account.describe_limits(now)
        limiter = self._limiter_of(account)
        if limiter is None or self._is_down:
            return limits
        try:
            used = await asyncio.shield(asyncio.ensure_future(limiter.run_step()))
        except ERRORS as error:
            self._mark_server_down(error)
            return limits
        return [limit | {"used": type(limit["used"])(round(used[limit["name"]], 9))} for limit in limits]

    def describe(self) -> dict[str, Any]:
        return {"over": self.name, "state": "down" if self.problem else "ok", "problem": self.problem}

    def _limiter_of(self, account: TenantAccount) -> BatchedLimiter | None:
        """Return the limiter of `account`; None where it has no limits.

        One stays for as long as the gateway runs: its portions are numbered.
        """
        if not account.is_limited:
            return None
        limiter = self._limiters.get(account.tenant)
        if limiter is None:
            limiter = BatchedLimiter(account, self._redis, self._gateway, self._section, self._clock)
            self._limiters[account.tenant] = limiter
        return limiter

    @property
    def _is_down(self) -> bool:
        return asyncio.get_running_loop().time() < self._down_until

    def _mark_server_down(self, error: Exception) -> None:
        if self.problem is None:
            log.warning("this gateway counts limits alone for now: valkey: %s", error or type(error).__name__)
        self.problem = str(error) or type(error).__name__
        self._down_until = asyncio.get_running_loop().time() + _PAUSE_S

    async def _renew_reservations(self) -> None:
        """Renew reservations before they expire, and report late usage."""
        while True:
            try:
                for limiter in [*self._limiters.values()]:
                    if limiter.has_unsent_usage:
                        await limiter.run_step()
                if self.problem is not None and self._limiters:
                    await next(iter(self._limiters.values())).run_step()
                    log.info("limits are shared by all gateways again")
                self.problem = None
            except ERRORS as error:
                self._mark_server_down(error)
            await asyncio.sleep(_PAUSE_S if self.problem else self._section.forget_after_s / 3)
