"""Limits of all gateways together, over Valkey or Redis; of this one alone while the server is away."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from radixway.core.component import Component
from radixway.core.config import ConfigError, SharedLimitsConfig
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.net.valkey import ERRORS, connect_valkey
from radixway.core.pipeline import LimitReachedError
from radixway.core.tenants.account import NOTHING, TenantAccount, UsageEstimate
from radixway.core.tenants.shared.batched_limiter import BatchedLimiter

log = logging.getLogger(__name__)

_PAUSE_S = 1.0
"""For how long a server that did not answer is left alone."""
_FINAL_STEP_TIMEOUT_S = 0.5


class SharedLimits(Component):
    """A `LimitsBackend`. Every account is judged by the server, one step at a time for each
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
        """Of the tenants that have limits."""

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
        """Implement `LimitsBackend`."""
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
        """Implement `LimitsBackend`."""
        account.settle_usage(now, estimate, tokens, cost)
        lane = self._lanes.get(account.tenant)
        if lane is not None:
            lane.add_usage(tokens, cost)
            if not self._is_away:
                lane.start_step(self._mark_server_down)

    async def limits_of(self, account: TenantAccount, now: float) -> list[dict[str, Any]]:
        """Implement `LimitsBackend`."""
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
        """For `/health`."""
        return {"over": self.name, "state": "down" if self.problem else "ok", "problem": self.problem}

    def metrics_state(self) -> tuple[str, float]:
        """For metrics."""
        return self.name, 0.0 if self.problem else 1.0

    @property
    def _is_away(self) -> bool:
        return asyncio.get_running_loop().time() < self._away_until

    def _mark_server_down(self, error: Exception) -> None:
        if self.problem is None:
            log.warning("limits are this gateway's alone: valkey: %s", error or type(error).__name__)
        self.problem = str(error) or type(error).__name__
        self._away_until = asyncio.get_running_loop().time() + _PAUSE_S

    async def _renew_reservations(self) -> None:
        """What is in hand, before the server lets go of it; and what could not be told when it was used."""
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
