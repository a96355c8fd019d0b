"""Webhooks: events of chats, delivered to addresses that users and the configuration name.

`WebhookOutbox` writes events in the transaction that they are about, `WebhookDeliverer` delivers them, signed
as Standard Webhooks (standardwebhooks.com) are, and `WebhookStore` keeps the addresses.
"""

from radixway.chat.webhooks.deliverer import WebhookDeliverer
from radixway.chat.webhooks.outbox import (
    EVENTS,
    ConfiguredTarget,
    WebhookEvent,
    WebhookEventType,
    WebhookOutbox,
)
from radixway.chat.webhooks.webhook_store import UndeliveredEvent, UserWebhook, WebhookStore, read_secret

__all__ = [
    "EVENTS",
    "ConfiguredTarget",
    "UndeliveredEvent",
    "UserWebhook",
    "WebhookDeliverer",
    "WebhookEvent",
    "WebhookEventType",
    "WebhookOutbox",
    "WebhookStore",
    "read_secret",
]
