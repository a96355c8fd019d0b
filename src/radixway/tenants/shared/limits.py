"""Limits of all gateways together, over Valkey or Redis; of this one alone while the server is away."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from radixway.component import Component
from radixway.config import ConfigError, SharedLimitsSection
from radixway.net.stopping import stop
from radixway.net.valkey import ERRORS, connect
from radixway.pipeline import LimitReached
from radixway.tenants.account import NOTHING, Account, Estimate
from radixway.tenants.shared.lane import Lane

log = logging.getLogger(__name__)

_PAUSE_S = 1.0
"""For how long a server that did not answer is left alone."""
_LAST_WORDS_S = 0.5


class SharedLimits(Component):
    """A `LimitsHome`. Every account is judged by the server, one step at a time for each (`Lane`).

    The account in this process is kept besides: it is what holds while the server is away, which costs no
    request more than `timeout_s`.
    """

    name = "valkey"

    def __init__(
        self, section: SharedLimitsSection, accounts: Mapping[str, Account], clock: Callable[[], float]
    ) -> None:
        """`clock`: since the epoch. Raises ConfigError."""
        self._section = section
        self._away_until = 0.0
        self.problem: str | None = None
        """Why limits are this gateway's alone now."""
        try:
            self._redis = connect(
                section.redis.get_secret_value(), answer_s=section.timeout_s, connect_s=section.timeout_s
            )
        except ValueError as error:
            raise ConfigError(f"scale.limits.redis: {error}") from None
        self._renewing: asyncio.Task[None]
        gateway = uuid.uuid4().hex
        self._lanes = {
            name: Lane(account, self._redis, gateway, section, clock)
            for name, account in accounts.items()
            if account.is_limited
        }
        """Of the tenants that have limits."""

    async def start(self) -> None:
        """Renew what is in hand from now on."""
        self._renewing = asyncio.create_task(self._renew(), name="limits of all gateways")

    async def stop(self) -> None:
        """Tell what was used, and give all places back."""
        await stop([self._renewing])
        try:
            async with asyncio.timeout(_LAST_WORDS_S):
                await asyncio.gather(*(lane.step() for lane in self._lanes.values() if lane.is_owed))
        except ERRORS as error:
            self._lose(error)
        await self._redis.aclose()

    async def admit(self, account: Account, now: float, estimate: Estimate = NOTHING) -> None:
        """See `LimitsHome`."""
        lane = self._lanes.get(account.tenant)
        if lane is None or self._is_away:
            account.admit(now, estimate)
            return
        try:
            await lane.admit(now, estimate)
        except ERRORS as error:
            self._lose(error)
            account.admit(now, estimate)
        except LimitReached:
            self.problem = None
            raise
        else:
            self.problem = None

    def settle(self, account: Account, now: float, estimate: Estimate, tokens: int, cost: float) -> None:
        """See `LimitsHome`."""
        account.settle(now, estimate, tokens, cost)
        lane = self._lanes.get(account.tenant)
        if lane is not None:
            lane.owe(tokens, cost)
            if not self._is_away:
                lane.begin(self._lose)

    async def limits_of(self, account: Account, now: float) -> list[dict[str, Any]]:
        """See `LimitsHome`."""
        told = account.describe(now)
        lane = self._lanes.get(account.tenant)
        if lane is None or self._is_away:
            return told
        try:
            used = await asyncio.shield(asyncio.ensure_future(lane.step()))
        except ERRORS as error:
            self._lose(error)
            return told
        return [each | {"used": type(each["used"])(round(used[each["name"]], 9))} for each in told]

    def describe(self) -> dict[str, Any]:
        """For `/health`."""
        return {"over": self.name, "state": "down" if self.problem else "ok", "problem": self.problem}

    def state(self) -> tuple[str, float]:
        """For metrics."""
        return self.name, 0.0 if self.problem else 1.0

    @property
    def _is_away(self) -> bool:
        return asyncio.get_running_loop().time() < self._away_until

    def _lose(self, error: Exception) -> None:
        if self.problem is None:
            log.warning("limits are this gateway's alone: valkey: %s", error or type(error).__name__)
        self.problem = str(error) or type(error).__name__
        self._away_until = asyncio.get_running_loop().time() + _PAUSE_S

    async def _renew(self) -> None:
        """What is in hand, before the server lets go of it; and what could not be told when it was used."""
        while True:
            try:
                for lane in self._lanes.values():
                    if lane.is_owed:
                        await lane.step()
                if self.problem is not None:
                    await next(iter(self._lanes.values())).step()
                    log.info("limits are all gateways' again")
                self.problem = None
            except ERRORS as error:
                self._lose(error)
            await asyncio.sleep(_PAUSE_S if self.problem else self._section.forget_after_s / 3)
