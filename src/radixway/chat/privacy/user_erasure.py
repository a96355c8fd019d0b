"""Erases users: their answers in flight end, their rows are deleted, and then the traces of these."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass

from sqlalchemy import delete, func, or_, select, tuple_, update
from sqlalchemy.exc import SQLAlchemyError

from radixway.chat.active_answers import ActiveAnswers
from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.messages import detach_messages
from radixway.chat.privacy.file_scrubber import FileScrubber
from radixway.chat.privacy.row_owners import OWNERS, is_owned_by
from radixway.chat.records import OF_TENANTS
from radixway.chat.schema import chats, messages, users
from radixway.chat.statements import UNDER_WAY
from radixway.chat.webhooks import WebhookEvent, WebhookOutbox
from radixway.core.component import CannotErase


@dataclass(frozen=True, slots=True)
class ErasedIds:
    """Ids of erased rows, for caches that use them as keys."""

    users: list[str]
    chats: list[str]
    messages: list[str]


class UserErasure:
    """Erases users of a database. Belongs to one event loop."""

    def __init__(
        self,
        database: ChatDatabase,
        answers: ActiveAnswers,
        scrubber: FileScrubber,
        clock: Callable[[], float],
        outbox: WebhookOutbox | None = None,
    ) -> None:
        """`clock`: seconds since 1970. `outbox`: notifies configured targets of users' ids."""
        self.also: list[Callable[[ErasedIds], Awaitable[None]]] = []
        """Called when rows are gone, before files are scrubbed, to forget cached data of these ids."""
        self._database = database
        self._answers = answers
        self._scrubber = scrubber
        self._clock = clock
        self._outbox = outbox

    async def erase_users(self, tenant: str, user: str | None = None) -> int:
        """Erase a `user` by id, by the name that a key of the `tenant` gives, or as `provider:account`.

        `user` None: all of the tenant, those that left before too. Returns how many rows there were; may be
        called again. Raises CannotErase: files may still hold something, or the database does not answer.
        """
        try:
            user_ids = await self._revoke_access(tenant, user)
            rows = 0 if not user_ids else await self._erase_users(user_ids)
        except SQLAlchemyError as error:
            raise CannotErase(f"the chats' database: {type(error).__name__}") from error
        await self._scrubber.scrub_owed()
        return rows

    async def _revoke_access(self, tenant: str, user: str | None) -> list[str]:
        meant = users.c.tenant == tenant
        if user is not None:
            provider, _, account = user.partition(":")
            names = (users.c.provider, users.c.provider_account_id)
            meant &= or_(users.c.id == user, tuple_(*names).in_([(OF_TENANTS, user), (provider, account)]))
        async with self._database.write_transaction() as write:
            found = await write.execute(update(users).where(meant).values(deleted=True).returning(users.c.id))
            return list(found.scalars())

    async def _erase_users(self, user_ids: Collection[str]) -> int:
        await self.end_answers(user_ids)
        erased, rows = await self._delete_rows(user_ids)
        await self._answers.drop_answers(erased.messages)
        for hook in self.also:
            await hook(erased)
        return rows

    async def end_answers(self, user_ids: Collection[str]) -> None:
        """Cancel the answers in flight of `user_ids`, and end their streams."""
        wanted = (
            select(messages.c.id, chats.c.user_id)
            .join(chats)
            .where(chats.c.user_id.in_(user_ids), messages.c.state.in_(UNDER_WAY))
        )
        under_way = await self._database.fetch_all(wanted)
        for message_id, user_id in under_way:
            try:
                await self._answers.cancel_answer(user_id, message_id)
            except ChatNotFoundError:  # its chat was deleted just now
                continue

    async def _delete_rows(self, user_ids: Collection[str]) -> tuple[ErasedIds, int]:
        async with self._database.write_transaction() as write:
            of_chats = select(chats.c.id).where(is_owned_by(chats, user_ids))
            of_messages = select(messages.c.id).where(is_owned_by(messages, user_ids))
            erased = ErasedIds(
                list(user_ids),
                list((await write.execute(of_chats)).scalars()),
                list((await write.execute(of_messages)).scalars()),
            )
            rows = 0
            for table in OWNERS:  # first, since cascades are not counted
                counted = select(func.count()).select_from(table).where(is_owned_by(table, user_ids))
                rows += (await write.execute(counted)).scalar_one()
            await detach_messages(write, of_chats)
            for table in reversed(OWNERS):
                await write.execute(delete(table).where(is_owned_by(table, user_ids)))
            if self._outbox is not None:
                for user_id in user_ids:
                    await self._outbox.put(write, user_id, WebhookEvent("user.deleted", ""))
            await self._scrubber.owe_scrub(write, self._clock())
        return erased, rows
