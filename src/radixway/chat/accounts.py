"""User accounts, found by the identity that their login provider gives them."""

import uuid
from collections.abc import Callable
from typing import Any

from sqlalchemy import delete, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat import statements
from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.messages import detach_messages
from radixway.chat.records import User, UserRole
from radixway.chat.schema import (
    api_keys,
    budgets,
    chats,
    deliveries,
    refresh_tokens,
    users,
    webhooks,
)
from radixway.chat.webhooks import WebhookEvent, WebhookOutbox

HOUSE = "house"
"""Provider of users that the server's operator makes."""


class UserAccounts:
    """The users of all tenants."""

    def __init__(
        self, database: ChatDatabase, clock: Callable[[], float], outbox: WebhookOutbox | None = None
    ) -> None:
        """`clock`: seconds since 1970. `outbox`: for events of users."""
        self._database = database
        self._clock = clock
        self._outbox = outbox or WebhookOutbox(database, clock)

    async def find_user(self, user_id: str) -> User:
        """Return the user `user_id`. Raises ChatNotFoundError, also for a deleted one."""
        row = await self._database.fetch_first(statements.USER, {"user": user_id})
        if row is None or row.deleted:
            raise ChatNotFoundError("User not found")
        return User(**row._mapping)

    async def find_provider_user(self, tenant: str, provider: str, account: str) -> User | None:
        """Return the user known to `provider` as `account`; None where there is none, or a deleted one."""
        async with self._database.read_connection() as read:
            return await _find_known(read, tenant, provider, account)

    async def enroll_user(
        self, tenant: str, provider: str, account: str, display_name: str, *, new_id: str
    ) -> User:
        """Return the user known to `provider` as `account`, creating one with `new_id` where there is none.

        A deleted user gets a new account, under another id. Raises ChatNotFoundError: another user has it.
        """
        identity = {"tenant": tenant, "provider": provider, "provider_account_id": account}
        try:
            return await self._enroll(identity, display_name, new_id)
        except IntegrityError:  # another call of the same user was first
            return await self._enroll(identity, display_name, new_id)

    async def _enroll(self, identity: dict[str, str], display_name: str, new_id: str) -> User:
        async with self._database.write_transaction() as write:
            known = await _find_known(write, *identity.values())
            if known is not None:
                return known
            taken = (await write.execute(statements.USER, {"user": new_id})).first()
            if taken is not None:
                if {name: taken._mapping[name] for name in identity} == identity and not taken.deleted:
                    return User(**taken._mapping)  # enrolled between the two queries
                if not taken.deleted:
                    raise ChatNotFoundError("User not found")
                new_id = str(uuid.uuid4())
            values = identity | {"id": new_id, "display_name": display_name, "created_at": self._clock()}
            row = await write.execute(users.insert().values(**values).returning(*users.c))
            return User(**row.one()._mapping)

    async def list_users(self, *, tenant: str | None = None, limit: int = 1000) -> list[User]:
        """Return at most `limit` users, newest first, without deleted ones. `tenant`: only this tenant's."""
        wanted = select(users).where(users.c.deleted.is_(False))
        if tenant is not None:
            wanted = wanted.where(users.c.tenant == tenant)
        rows = await self._database.fetch_all(
            wanted.order_by(users.c.created_at.desc(), users.c.id).limit(limit)
        )
        return [User(**row._mapping) for row in rows]

    async def set_role(self, user_id: str, role: UserRole) -> None:
        """Give `user_id` another `role`, from the next call on. Raises ChatNotFoundError."""
        known = users.c.id == user_id, users.c.deleted.is_(False)
        if await self._database.execute(update(users).where(*known).values(role=role)) == 0:
            raise ChatNotFoundError("User not found")

    async def delete_user(self, user_id: str, *, with_chats: bool = False) -> None:
        """Delete the name, tokens and keys of `user_id`; `with_chats`: the chats too, which otherwise stay.

        Raises ChatNotFoundError.
        """
        async with self._database.write_transaction() as write:
            gone = {
                "deleted": True,
                "display_name": "",
                "provider_account_id": f"deleted:{user_id}",
            }
            known = users.c.id == user_id, users.c.deleted.is_(False)
            if (await write.execute(update(users).where(*known).values(**gone))).rowcount == 0:
                raise ChatNotFoundError("User not found")
            if with_chats:
                await detach_messages(write, select(chats.c.id).where(chats.c.user_id == user_id))
                await write.execute(delete(chats).where(chats.c.user_id == user_id))
            for table in (refresh_tokens, api_keys, budgets, deliveries, webhooks):
                await write.execute(delete(table).where(table.c.user_id == user_id))
            await self._outbox.put(write, user_id, WebhookEvent("user.deleted", ""))


async def _find_known(connection: AsyncConnection, tenant: str, provider: str, account: str) -> User | None:
    wanted: Any = select(users).where(
        users.c.tenant == tenant,
        users.c.provider == provider,
        users.c.provider_account_id == account,
        users.c.deleted.is_(False),
    )
    row = (await connection.execute(wanted)).first()
    return None if row is None else User(**row._mapping)
