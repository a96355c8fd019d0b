"""Alerts of budgets that come to their soft or hard end: each once in a period, by webhook or Slack."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from math import inf
from typing import TYPE_CHECKING, Any

import aiohttp

from radixway.api.keys.store.access_store import AccessStore, SpendingRow
from radixway.api.keys.store.errors import AccessUnavailableError
from radixway.core.config.keys import BudgetAlertsConfig
from radixway.core.config.tenants import format_cost
from radixway.core.net.task_cancellation import cancel_tasks
from radixway.core.tenants import SpendAccount

if TYPE_CHECKING:
    from radixway.api.keys.store.key_directory import KeyDirectory

log = logging.getLogger(__name__)

_FIRST_PAUSE_S = 1.0
_EVENTS = {"soft": "budget_soft_limit_reached", "hard": "budget_exceeded"}


class BudgetAlertSender:
    """Sends alerts beside requests. Of several gateways the one that claims an alert in the store sends it;
    what it cannot deliver in `attempts` it gives back, and it is tried again at the next spending.
    """

    def __init__(
        self,
        config: BudgetAlertsConfig,
        store: AccessStore,
        clock: Callable[[], float],
        pause_s: float = _FIRST_PAUSE_S,
    ) -> None:
        """`pause_s`: after the first failed delivery; doubled after each."""
        self._store = store
        self._clock = clock
        self._pause_s = pause_s
        self._attempts = config.attempts
        self._timeout = aiohttp.ClientTimeout(total=config.timeout_s)
        self._webhook = None if config.webhook is None else config.webhook.get_secret_value()
        self._slack = None if config.slack is None else config.slack.get_secret_value()
        self._tasks: dict[tuple[str, str, str], asyncio.Task[None]] = {}

    def check_budgets(self, directory: KeyDirectory, rows: Iterable[SpendingRow]) -> None:
        """Send alerts of those of `rows` whose spending has come to an end that nobody was told of."""
        for row in rows:
            account = directory.accounts.get((row.kind, row.id))
            if account is None:
                continue
            ends = {
                "soft": (account.limits.soft_budget, row.soft_alert_at),
                "hard": (account.limits.max_budget, row.hard_alert_at),
            }
            for event, (limit, told_at) in ends.items():
                is_reached = limit is not None and told_at is None and account.spent_now >= limit
                if is_reached and (row.kind, row.id, event) not in self._tasks:
                    self._start(account, event, limit or 0.0)

    async def stop(self) -> None:
        """Give up what is on its way; what was claimed for it is given back."""
        await cancel_tasks(self._tasks.values())

    def _start(self, account: SpendAccount, event: str, limit: float) -> None:
        key = account.kind, account.id, event
        task = self._tasks[key] = asyncio.create_task(
            self._claim_and_send(account, event, self._describe(account, event, limit))
        )
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    def _describe(self, account: SpendAccount, event: str, limit: float) -> dict[str, Any]:
        resets_at = None if account.resets_at == inf else account.resets_at
        return {
            "event": _EVENTS[event],
            "kind": account.kind,
            "id": account.id,
            "name": account.name,
            "spent": round(account.spent_now, 9),
            "limit": limit,
            "currency": account.currency,
            "resets_at": None if resets_at is None else _iso(resets_at),
            "at": _iso(self._clock()),
        }

    async def _claim_and_send(self, account: SpendAccount, event: str, alert: dict[str, Any]) -> None:
        try:
            if not await self._store.claim_alert(account.kind, account.id, event, self._clock()):
                return
        except AccessUnavailableError:
            return  # the next spending is written when it is back, and leads here again
        words = _words(alert)
        log.warning("%s", words)
        targets: list[tuple[str, Any]] = []
        if self._webhook is not None:
            targets.append((self._webhook, alert))
        if self._slack is not None:
            targets.append((self._slack, {"text": words}))
        delivered = False
        try:
            delivered = all([await self._deliver(url, body) for url, body in targets])
        finally:
            if not delivered:
                with suppress(AccessUnavailableError):
                    await asyncio.shield(self._store.release_alert(account.kind, account.id, event))

    async def _deliver(self, url: str, body: Any) -> bool:
        """Return whether the target took `body` at one of the attempts."""
        pause_s, trouble = self._pause_s, ""
        async with aiohttp.ClientSession(timeout=self._timeout) as session:
            for attempt in range(1, self._attempts + 1):
                try:
                    async with session.post(url, json=body, allow_redirects=False) as reply:
                        if reply.status < 300:
                            return True
                        trouble = f"status {reply.status}"
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    trouble = type(error).__name__  # its text may have the address, which may be a secret
                if attempt < self._attempts:
                    await asyncio.sleep(pause_s)
                    pause_s *= 2
        log.error("a budget alert was not delivered after %d attempts: %s", self._attempts, trouble)
        return False


def _words(alert: dict[str, Any]) -> str:
    what = "is used up" if alert["event"] == _EVENTS["hard"] else "has reached its soft end"
    spent, limit = format_cost(alert["spent"]), format_cost(alert["limit"])
    again = "" if alert["resets_at"] is None else f", resets at {alert['resets_at']}"
    return (
        f"the budget of the {alert['kind']} {alert['name']!r} {what}:"
        f" {spent} of {limit} {alert['currency']}{again}"
    )


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
