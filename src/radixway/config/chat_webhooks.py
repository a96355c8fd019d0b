"""The `chat.webhooks` section: who is told of what happens in chats."""

from __future__ import annotations

from ipaddress import ip_network
from typing import Annotated

from pydantic import Field, SecretStr, field_validator

from radixway.config.base import ConfigSection


class ChatWebhookConfig(ConfigSection):
    """An address that is told of all users' events."""

    name: str = Field(min_length=1)
    """How logs and deliveries call it."""
    url: str = Field(min_length=1)
    """Where events are sent."""
    secret: SecretStr
    """`whsec_` and base64 of 24 to 64 bytes."""
    events: tuple[str, ...] = ()
    """`answer.completed` …; none: all."""


class ChatWebhooksConfig(ConfigSection):
    """Those of users at `/v1/webhooks`, and those named here."""

    to: tuple[ChatWebhookConfig, ...] = ()
    per_user: int = Field(default=10, ge=0)
    """0: users have none."""
    http: bool = False
    """Addresses of users may do without TLS."""
    allowed_networks: tuple[str, ...] = ()
    """Such as `10.1.0.0/16`: may be called although they are not public."""
    timeout_s: float = Field(default=15.0, gt=0, le=45)
    """Of one attempt."""
    retries_s: tuple[Annotated[float, Field(gt=0)], ...] = (5, 300, 1800, 7200, 18_000, 36_000, 36_000)
    """Between the attempts; after the last one a delivery is given up."""
    kept_s: float = Field(default=7 * 86_400.0, gt=0)
    """How long what was given up can be looked up and tried again."""

    @field_validator("allowed_networks")
    @classmethod
    def _check_networks(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        for network in given:
            ip_network(network)
        return given
