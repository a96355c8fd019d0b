"""What happens in chats, told to addresses that users and the configuration name.

`WebhookOutbox` writes what is to be told in the transaction that it tells of, `WebhookDeliverer` brings it
there, signed as Standard Webhooks (standardwebhooks.com) are, and `WebhookStore` keeps the addresses.
"""

from radixway.chat.webhooks.deliverer import WebhookDeliverer
from radixway.chat.webhooks.events import EVENTS, WebhookEvent, WebhookEventType
from radixway.chat.webhooks.hooks import UndeliveredEvent, UserWebhook, WebhookStore
from radixway.chat.webhooks.outbox import ConfiguredTarget, WebhookOutbox
from radixway.chat.webhooks.signing import read_secret

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
