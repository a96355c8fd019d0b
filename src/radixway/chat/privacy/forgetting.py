"""Forgets users: their answers under way end, their rows go, and then the traces of these."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from sqlalchemy import delete, func, or_, select, tuple_, update
from sqlalchemy.exc import SQLAlchemyError

from radixway.chat.answers import Answers
from radixway.chat.database import Database
from radixway.chat.errors import NotFound
from radixway.chat.messages import untie
from radixway.chat.privacy.owners import OWNERS, theirs
from radixway.chat.privacy.scrubbing import Scrubber
from radixway.chat.records import OF_TENANTS
from radixway.chat.schema import chats, messages, users
from radixway.chat.statements import UNDER_WAY
from radixway.chat.webhooks import Event, Outbox
from radixway.component import CannotErase


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Ids of what is gone, for whoever keeps something by them."""

    users: list[str]
    chats: list[str]
    messages: list[str]


class Forgetting:
    """Of all users of a database. Belongs to one event loop."""

    def __init__(
        self,
        database: Database,
        answers: Answers,
        scrubber: Scrubber,
        clock: Callable[[], float],
        outbox: Outbox | None = None,
    ) -> None:
        """`clock`: seconds since 1970. `outbox`: tells those whom the configuration names, by users' ids."""
        self.also: list[Callable[[Forgotten], Awaitable[None]]] = []
        """Called when rows are gone, before files are scrubbed: forget what is kept by these ids."""
        self._database = database
        self._answers = answers
        self._scrubber = scrubber
        self._clock = clock
        self._outbox = outbox

    async def forget(self, tenant: str, user: str | None = None) -> int:
        """A user by their id, by the name that a key of the tenant gives them, or as `provider:account`.

        None: all of a tenant, those that left before too.

        Returns how many rows there were; may be called again. Raises CannotErase: something of them may
        still be in files, or the database does not answer.
        """
        try:
            user_ids = await self._shut_out(tenant, user)
            rows = 0 if not user_ids else await self._forget(user_ids)
        except SQLAlchemyError as error:
            raise CannotErase(f"the chats' database: {type(error).__name__}") from error
        await self._scrubber.scrub()
        return rows

    async def _shut_out(self, tenant: str, user: str | None) -> list[str]:
        """They can ask for nothing any more."""
        meant = users.c.tenant == tenant
        if user is not None:
            provider, _, account = user.partition(":")
            names = (users.c.provider, users.c.provider_account_id)
            meant &= or_(users.c.id == user, tuple_(*names).in_([(OF_TENANTS, user), (provider, account)]))
        async with self._database.write() as write:
            found = await write.execute(update(users).where(meant).values(deleted=True).returning(users.c.id))
            return list(found.scalars())

    async def _forget(self, user_ids: Collection[str]) -> int:
        await self.end_answers(user_ids)
        forgotten, rows = await self._delete(user_ids)
        await self._answers.forget(forgotten.messages)
        for told in self.also:
            await told(forgotten)
        return rows

    async def end_answers(self, user_ids: Collection[str]) -> None:
        """Those under way, and with them their streams."""
        wanted = (
            select(messages.c.id, chats.c.user_id)
            .join(chats)
            .where(chats.c.user_id.in_(user_ids), messages.c.state.in_(UNDER_WAY))
        )
        async with self._database.read() as read:
            under_way = (await read.execute(wanted)).all()
        for message_id, user_id in under_way:
            try:
                await self._answers.cancel(user_id, message_id)
            except NotFound:  # its chat was deleted just now
                continue

    async def _delete(self, user_ids: Collection[str]) -> tuple[Forgotten, int]:
        async with self._database.write() as write:
            of_chats = select(chats.c.id).where(theirs(chats, user_ids))
            of_messages = select(messages.c.id).where(theirs(messages, user_ids))
            forgotten = Forgotten(
                list(user_ids),
                list((await write.execute(of_chats)).scalars()),
                list((await write.execute(of_messages)).scalars()),
            )
            rows = 0
            for table in OWNERS:  # before any goes: what cascades take is not counted
                counted = select(func.count()).select_from(table).where(theirs(table, user_ids))
                rows += (await write.execute(counted)).scalar_one()
            await untie(write, of_chats)
            for table in reversed(OWNERS):
                await write.execute(delete(table).where(theirs(table, user_ids)))
            if self._outbox is not None:
                for user_id in user_ids:
                    await self._outbox.put(write, user_id, Event("user.deleted", ""))
            await self._scrubber.owe(write, self._clock())
        return forgotten, rows
