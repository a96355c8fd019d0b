"""Delivers webhooks, and puts their parts together from the configuration."""

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Sequence

from sqlalchemy.exc import SQLAlchemyError

from radixway.chat.database import ChatDatabase
from radixway.chat.notifications import wait_for_event
from radixway.chat.server_secrets import ServerSecrets
from radixway.chat.webhooks.outbox import EVENTS, ConfiguredTarget, WebhookDelivery, WebhookOutbox
from radixway.chat.webhooks.webhook_store import WebhookStore, read_secret, sign_headers
from radixway.core.config import ChatWebhooksConfig, ConfigError
from radixway.core.net import AddressAllowlist, FetchError, UrlFetcher
from radixway.core.net.fetcher import parse_fetch_url

log = logging.getLogger(__name__)

_GONE = 410
_AT_ONCE, _OF_A_TARGET = 32, 4
_POLL_INTERVAL_S = 30.0
"""Interval between looks for work that another process left."""
_TIDY_S = 3600.0
_MAX_REPLY_BYTES = 1024


class WebhookDeliverer:
    """Belongs to one event loop; any number of processes may have one."""

    def __init__(
        self,
        outbox: WebhookOutbox,
        hooks: WebhookStore,
        fetcher: UrlFetcher,
        clock: Callable[[], float],
        *,
        timeout_s: float,
        retries_s: Sequence[float],
        kept_s: float,
    ) -> None:
        self._outbox = outbox
        self._hooks = hooks
        self._fetcher = fetcher
        self._clock = clock
        self._timeout_s = timeout_s
        self._retries_s = tuple(retries_s)
        self._kept_s = kept_s
        self._news = asyncio.Event()
        self._busy: Counter[str] = Counter()
        self._running: set[asyncio.Task[None]] = set()
        self._tidied_at = 0.0
        outbox.on_news = self._news.set

    async def run(self) -> None:
        """Deliver until cancelled; deliveries in progress then are retried when their lease has ended."""
        try:
            while True:
                self._news.clear()
                try:
                    if not await self._take():
                        await self._tidy()
                        due = await self._outbox.next_due()
                        left = _POLL_INTERVAL_S if due is None else due - self._clock()
                        await wait_for_event(self._news, min(max(left, 0.0), _POLL_INTERVAL_S))
                except SQLAlchemyError as error:
                    log.warning("webhooks: the database does not answer: %s", type(error).__name__)
                    await asyncio.sleep(1.0)
        finally:
            for task in self._running:
                task.cancel()
            await asyncio.gather(*self._running, return_exceptions=True)
            await self._fetcher.aclose()

    async def _take(self) -> bool:
        """Start some deliveries; return False if there is nothing to do or no capacity."""
        capacity = min(_AT_ONCE - len(self._running), _OF_A_TARGET)
        if capacity <= 0:
            return False
        full = [target for target, count in self._busy.items() if count >= _OF_A_TARGET]
        taken = await self._outbox.claim(capacity, but=full)
        for delivery in taken:
            self._busy[delivery.target] += 1
            task = asyncio.create_task(self._deliver(delivery))
            self._running.add(task)
            task.add_done_callback(self._done)
        return bool(taken)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._news.set()  # there is capacity, and the next delivery may be due

    async def _deliver(self, delivery: WebhookDelivery) -> None:
        try:
            await self._attempt(delivery)
        except SQLAlchemyError as error:
            log.warning("the outcome of a webhook delivery could not be saved: %s", type(error).__name__)
        finally:
            self._busy[delivery.target] -= 1
            self._busy += Counter()  # drops zero counts

    async def _attempt(self, delivery: WebhookDelivery) -> None:
        to = await self._address(delivery.target)
        if to is None:
            await self._outbox.failed(delivery, "the webhook is gone or switched off", None, None)
            return
        url, secrets = to
        body = delivery.payload.encode()
        signed = sign_headers(delivery.id, int(self._clock()), body, secrets)
        status, error = None, ""
        try:
            answer = await self._fetcher.fetch(
                url,
                method="POST",
                headers=signed,
                body=body,
                max_bytes=_MAX_REPLY_BYTES,
                timeout_s=self._timeout_s,
            )
            status, error = answer.status, f"answered {answer.status}"
        except FetchError as refused:
            error = str(refused)
        if status is not None and 200 <= status < 300:
            await self._outbox.delivered(delivery)
            return
        if status == _GONE:
            await self._hooks.disable(delivery.target)
        log.info("webhook %s, attempt %d: %s", delivery.target, delivery.attempts, error)
        await self._outbox.failed(delivery, error, status, None if status == _GONE else self._wait(delivery))

    async def _address(self, target: str) -> tuple[str, list[bytes]] | None:
        fixed = self._outbox.fixed.get(target)
        if fixed is not None:
            return fixed.url, [fixed.secret]
        hook = await self._hooks.get(target)
        return (hook.url, self._hooks.signing(hook)) if hook is not None and hook.enabled else None

    def _wait(self, delivery: WebhookDelivery) -> float | None:
        """Return the jittered pause before the next attempt, or None."""
        if delivery.attempts > len(self._retries_s):
            return None
        return self._retries_s[delivery.attempts - 1] * random.uniform(1.0, 1.2)

    async def _tidy(self) -> None:
        now = self._clock()
        if now >= self._tidied_at + _TIDY_S:
            self._tidied_at = now
            await self._outbox.forget(self._kept_s)


class WebhookService:
    """The components of webhooks."""

    def __init__(
        self,
        config: ChatWebhooksConfig,
        database: ChatDatabase,
        secrets: ServerSecrets,
        clock: Callable[[], float],
    ) -> None:
        allowed = AddressAllowlist(config.allowed_networks)
        self.outbox = WebhookOutbox(database, clock, _fixed(config))
        self.webhooks = WebhookStore(
            database, clock, secrets, self.outbox, allowed, max_per_user=config.per_user, http=config.http
        )
        self.deliverer = WebhookDeliverer(
            self.outbox,
            self.webhooks,
            UrlFetcher(allowed, user_agent="radixway-webhooks"),
            clock,
            timeout_s=config.timeout_s,
            retries_s=config.retries_s,
            kept_s=config.kept_s,
        )


def _fixed(config: ChatWebhooksConfig) -> list[ConfiguredTarget]:
    found: dict[str, ConfiguredTarget] = {}
    for number, given in enumerate(config.to):
        where = f"chat.webhooks.to[{number}]"
        if given.name in found:
            raise ConfigError(f"{where}.name: {given.name} is used twice")
        unknown = [event for event in given.events if event not in EVENTS]
        if unknown:
            raise ConfigError(f"{where}.events: {unknown[0]} is none of {', '.join(EVENTS)}")
        try:
            parse_fetch_url(given.url)
        except FetchError as error:
            raise ConfigError(f"{where}.url: {error}") from None
        try:
            secret = read_secret(given.secret.get_secret_value())
        except ValueError as error:
            raise ConfigError(f"{where}.secret: {error}") from None
        found[given.name] = ConfiguredTarget(given.name, given.url, secret, frozenset(given.events))
    return list(found.values())
