"""Webhooks, put together from the configuration."""

from __future__ import annotations

from collections.abc import Callable

from radixway.chat.database import Database
from radixway.chat.secrets import Secrets
from radixway.chat.webhooks.deliverer import Deliverer
from radixway.chat.webhooks.events import EVENTS
from radixway.chat.webhooks.hooks import Webhooks
from radixway.chat.webhooks.outbox import Fixed, Outbox
from radixway.chat.webhooks.signing import read_secret
from radixway.config import ChatWebhooksSection, ConfigError
from radixway.net import Allowed, Fetcher, FetchError
from radixway.net.fetcher import readable


class HookRoom:
    """What belongs to them."""

    def __init__(
        self, config: ChatWebhooksSection, database: Database, secrets: Secrets, clock: Callable[[], float]
    ) -> None:
        """Raises ConfigError."""
        allowed = Allowed(config.allowed_networks)
        self.outbox = Outbox(database, clock, _fixed(config))
        self.webhooks = Webhooks(
            database, clock, secrets, self.outbox, allowed, most=config.per_user, http=config.http
        )
        self.deliverer = Deliverer(
            self.outbox,
            self.webhooks,
            Fetcher(allowed, user_agent="radixway-webhooks"),
            clock,
            timeout_s=config.timeout_s,
            retries_s=config.retries_s,
            kept_s=config.kept_s,
        )


def _fixed(config: ChatWebhooksSection) -> list[Fixed]:
    found: dict[str, Fixed] = {}
    for number, given in enumerate(config.to):
        where = f"chat.webhooks.to[{number}]"
        if given.name in found:
            raise ConfigError(f"{where}.name: {given.name} stands there twice")
        unknown = [event for event in given.events if event not in EVENTS]
        if unknown:
            raise ConfigError(f"{where}.events: {unknown[0]} is none of {', '.join(EVENTS)}")
        try:
            readable(given.url)
        except FetchError as error:
            raise ConfigError(f"{where}.url: {error}") from None
        try:
            secret = read_secret(given.secret.get_secret_value())
        except ValueError as error:
            raise ConfigError(f"{where}.secret: {error}") from None
        found[given.name] = Fixed(given.name, given.url, secret, frozenset(given.events))
    return list(found.values())
