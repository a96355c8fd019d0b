"""The webhooks that users have registered, their secrets, and the signatures of Standard Webhooks.

Secrets are not stored: they follow from the server's own, by HKDF.
"""

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection
from standardwebhooks import Webhook

from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError, InvalidFieldError
from radixway.chat.ids import new_id
from radixway.chat.schema import deliveries, webhooks
from radixway.chat.server_secrets import ServerSecrets
from radixway.chat.webhooks.outbox import GIVEN_UP, WAITING, WebhookEvent, WebhookOutbox
from radixway.core.net import AddressAllowlist, FetchError
from radixway.core.net.fetcher import parse_fetch_url

_PREFIX = "whsec_"
_BYTES = 24, 64
"""Smallest and largest, by the specification."""
OLD_SECRET_S = 86_400.0
"""How long deliveries are signed with the secret before, too."""


def derive_secret(secrets: ServerSecrets, webhook_id: str, number: int) -> bytes:
    """Derive the `number`-th secret of `webhook_id`."""
    return secrets.derive(f"radixway webhook {webhook_id} {number}".encode())


def encode_secret(secret: bytes) -> str:
    """Encode `secret` as receivers get it."""
    return _PREFIX + base64.b64encode(secret).decode()


def read_secret(text: str) -> bytes:
    """Decode `text`, a secret as `encode_secret` encodes it. Raises ValueError, without quoting it."""
    try:
        secret = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    min_bytes, max_bytes = _BYTES
    if not min_bytes <= len(secret) <= max_bytes:
        raise ValueError(f"a webhook's secret is {_PREFIX} and base64 of {min_bytes} to {max_bytes} bytes")
    return secret


def sign_headers(delivery_id: str, timestamp: int, body: bytes, secrets: Iterable[bytes]) -> dict[str, str]:
    """Return the headers of a signed delivery, with one signature for each of `secrets`: any of them will do.

    `timestamp`: seconds since 1970. `body`: UTF-8.
    """
    at, text = datetime.fromtimestamp(timestamp, UTC), body.decode()
    return {
        "webhook-id": delivery_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(Webhook(secret).sign(delivery_id, at, text) for secret in secrets),
        "content-type": "application/json",
    }


@dataclass(frozen=True, slots=True)
class UserWebhook:
    """An address that receives a user's events."""

    id: str
    user_id: str
    url: str
    events: list[str]
    """Empty: all."""
    enabled: bool
    secret_number: int
    secret_since: float
    created_at: float
    delivered_at: float | None
    failed_at: float | None


@dataclass(frozen=True, slots=True)
class UndeliveredEvent:
    """A delivery that has not arrived."""

    id: str
    type: str
    chat_id: str
    state: str
    """`waiting` or `given_up`."""
    created_at: float
    available_at: float
    """Time of the next attempt, or when it was given up."""
    attempts: int
    last_status: int | None
    last_error: str | None


class WebhookStore:
    """The webhooks of all users. Those of another user than the given one are not found."""

    def __init__(
        self,
        database: ChatDatabase,
        clock: Callable[[], float],
        secrets: ServerSecrets,
        outbox: WebhookOutbox,
        allowed: AddressAllowlist,
        *,
        max_per_user: int,
        http: bool,
    ) -> None:
        """`max_per_user`: webhooks. `http`: whether addresses without TLS may be named."""
        self._database = database
        self._clock = clock
        self._secrets = secrets
        self._outbox = outbox
        self._allowed = allowed
        self._max_per_user = max_per_user
        self._http = http

    async def add(self, user_id: str, url: str, events: Sequence[str]) -> tuple[UserWebhook, str]:
        """Register `url` for `events`; returns the webhook and its secret. Raises InvalidFieldError."""
        self._check(url)
        now = self._clock()
        row = {"id": new_id(), "user_id": user_id, "url": url, "events": sorted(set(events))}
        async with self._database.write_transaction() as write:
            count = select(func.count()).select_from(webhooks).where(webhooks.c.user_id == user_id)
            if (await write.execute(count)).scalar_one() >= self._max_per_user:
                raise InvalidFieldError("url", f"there are {self._max_per_user} webhooks already", status=409)
            made = await write.execute(
                webhooks.insert().values(**row, created_at=now, secret_since=now).returning(*webhooks.c)
            )
            hook = UserWebhook(**made.one()._mapping)
        return hook, self.secret(hook)

    async def of(self, user_id: str) -> list[UserWebhook]:
        """Return the webhooks of `user_id` in the order of creation."""
        wanted = select(webhooks).where(webhooks.c.user_id == user_id).order_by(webhooks.c.id)
        return [UserWebhook(**row._mapping) for row in await self._database.fetch_all(wanted)]

    async def find(self, user_id: str, webhook_id: str) -> UserWebhook:
        """Return `webhook_id`. Raises ChatNotFoundError."""
        async with self._database.read_connection() as read:
            return await self._own(read, user_id, webhook_id)

    async def get(self, webhook_id: str) -> UserWebhook | None:
        """Return `webhook_id`, of any user; None where there is none."""
        row = await self._database.fetch_first(select(webhooks).where(webhooks.c.id == webhook_id))
        return None if row is None else UserWebhook(**row._mapping)

    async def change(self, user_id: str, webhook_id: str, **fields: Any) -> UserWebhook:
        """Change `fields`: `url`, `events`, `enabled`. Raises ChatNotFoundError, InvalidFieldError."""
        if "url" in fields:
            self._check(fields["url"])
        if "events" in fields:
            fields["events"] = sorted(set(fields["events"]))
        async with self._database.write_transaction() as write:
            await self._own(write, user_id, webhook_id)
            if fields:
                await write.execute(update(webhooks).where(webhooks.c.id == webhook_id).values(**fields))
            return await self._own(write, user_id, webhook_id)

    async def rotate(self, user_id: str, webhook_id: str) -> tuple[UserWebhook, str]:
        """Give `webhook_id` another secret; the old one signs for a day more. Raises ChatNotFoundError."""
        async with self._database.write_transaction() as write:
            await self._own(write, user_id, webhook_id)
            number = webhooks.c.secret_number + 1
            changed = update(webhooks).where(webhooks.c.id == webhook_id)
            await write.execute(changed.values(secret_number=number, secret_since=self._clock()))
            hook = await self._own(write, user_id, webhook_id)
        return hook, self.secret(hook)

    async def remove(self, user_id: str, webhook_id: str) -> None:
        """Delete `webhook_id` and its deliveries. Raises ChatNotFoundError."""
        async with self._database.write_transaction() as write:
            await self._own(write, user_id, webhook_id)
            await write.execute(delete(deliveries).where(deliveries.c.target == webhook_id))
            await write.execute(delete(webhooks).where(webhooks.c.id == webhook_id))

    async def disable(self, webhook_id: str) -> None:
        """Disable `webhook_id`, whose receiver answered that it is gone."""
        await self._database.execute(
            update(webhooks).where(webhooks.c.id == webhook_id).values(enabled=False)
        )

    async def test(self, user_id: str, webhook_id: str) -> None:
        """Send `webhook_id` a test event. Raises ChatNotFoundError."""
        async with self._database.write_transaction() as write:
            await self._own(write, user_id, webhook_id)
            await self._outbox.put_for(write, user_id, WebhookEvent("webhook.test", ""), [webhook_id])

    async def undelivered(self, user_id: str, webhook_id: str, limit: int = 100) -> list[UndeliveredEvent]:
        """Return at most `limit` undelivered events, newest first. Raises ChatNotFoundError."""
        wanted = select(*(deliveries.c[name] for name in UndeliveredEvent.__slots__))
        wanted = wanted.where(deliveries.c.target == webhook_id)
        async with self._database.read_connection() as read:
            await self._own(read, user_id, webhook_id)
            rows = await read.execute(wanted.order_by(deliveries.c.number.desc()).limit(limit))
            return [UndeliveredEvent(**row._mapping) for row in rows]

    async def retry(self, user_id: str, webhook_id: str, delivery_id: str) -> None:
        """Retry `delivery_id`, which was given up, from the start. Raises ChatNotFoundError."""
        again = update(deliveries).where(
            deliveries.c.id == delivery_id,
            deliveries.c.target == webhook_id,
            deliveries.c.state == GIVEN_UP,
        )
        async with self._database.write_transaction() as write:
            await self._own(write, user_id, webhook_id)
            values = {"state": WAITING, "attempts": 0, "available_at": self._clock()}
            if (await write.execute(again.values(**values))).rowcount == 0:
                raise ChatNotFoundError("Delivery not found")
            self._database.call_after_commit(write, self._outbox.on_news)

    def secret(self, hook: UserWebhook) -> str:
        """Return the secret of `hook` as its receiver gets it."""
        return encode_secret(derive_secret(self._secrets, hook.id, hook.secret_number))

    def signing(self, hook: UserWebhook) -> list[bytes]:
        """Return the secrets that deliveries to `hook` are signed with now."""
        numbers = [hook.secret_number]
        if hook.secret_number > 1 and self._clock() < hook.secret_since + OLD_SECRET_S:
            numbers.append(hook.secret_number - 1)
        return [derive_secret(self._secrets, hook.id, number) for number in numbers]

    def _check(self, url: str) -> None:
        """Check a URL without resolving it. Raises InvalidFieldError."""
        try:
            read = parse_fetch_url(url)
        except FetchError as error:
            raise InvalidFieldError("url", str(error)) from None
        if read.scheme != "https" and not self._http:
            raise InvalidFieldError("url", "only https is supported")
        host = read.host or ""
        try:
            ip_address(host.partition("%")[0])
        except ValueError:
            return
        if not self._allowed(host):
            raise InvalidFieldError("url", f"{host} is not a public address")

    async def _own(self, connection: AsyncConnection, user_id: str, webhook_id: str) -> UserWebhook:
        wanted = select(webhooks).where(webhooks.c.id == webhook_id, webhooks.c.user_id == user_id)
        row = (await connection.execute(wanted)).first()
        if row is None:
            raise ChatNotFoundError("Webhook not found")
        return UserWebhook(**row._mapping)
