"""Webhooks, put together from the configuration."""

from __future__ import annotations

from collections.abc import Callable

from radixway.chat.database import ChatDatabase
from radixway.chat.server_secrets import ServerSecrets
from radixway.chat.webhooks.deliverer import WebhookDeliverer
from radixway.chat.webhooks.outbox import ConfiguredTarget, WebhookOutbox
from radixway.chat.webhooks.signatures import read_secret
from radixway.chat.webhooks.webhook_events import EVENTS
from radixway.chat.webhooks.webhook_store import WebhookStore
from radixway.core.config import ChatWebhooksConfig, ConfigError
from radixway.core.net import AddressAllowlist, FetchError, UrlFetcher
from radixway.core.net.fetcher import parse_fetch_url


class WebhookService:
    """The components of webhooks."""

    def __init__(
        self,
        config: ChatWebhooksConfig,
        database: ChatDatabase,
        secrets: ServerSecrets,
        clock: Callable[[], float],
    ) -> None:
        """Raises ConfigError."""
        allowed = AddressAllowlist(config.allowed_networks)
        self.outbox = WebhookOutbox(database, clock, _fixed(config))
        self.webhooks = WebhookStore(
            database, clock, secrets, self.outbox, allowed, most=config.per_user, http=config.http
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
            raise ConfigError(f"{where}.name: {given.name} stands there twice")
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
