"""What happens in chats, told to addresses that users and the configuration name.

`Outbox` writes what is to be told in the transaction that it tells of, `Deliverer` brings it there, signed as
Standard Webhooks (standardwebhooks.com) are, and `Webhooks` keeps the addresses.
"""

from radixway.chat.webhooks.deliverer import Deliverer
from radixway.chat.webhooks.events import EVENTS, Event, EventType
from radixway.chat.webhooks.hooks import Delivered, Webhook, Webhooks
from radixway.chat.webhooks.outbox import Fixed, Outbox
from radixway.chat.webhooks.signing import read_secret

__all__ = [
    "EVENTS",
    "Delivered",
    "Deliverer",
    "Event",
    "EventType",
    "Fixed",
    "Outbox",
    "Webhook",
    "Webhooks",
    "read_secret",
]
