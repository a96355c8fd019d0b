"""Share links: whoever has one reads a thread as it was, up to a message, until it expires or is revoked."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, or_, select

from radixway.chat.database import Database
from radixway.chat.errors import Invalid, NotFound
from radixway.chat.hashing import hashed
from radixway.chat.ids import new_id
from radixway.chat.messages import Messages, own_chat
from radixway.chat.records import Message
from radixway.chat.schema import chats, messages, shares, users


@dataclass(frozen=True, slots=True)
class Share:
    """What is shared, without the secret that opens it."""

    id: str
    chat_id: str
    message_id: str
    title: str | None
    created_at: float
    expires_at: float | None


_COLUMNS = tuple(shares.c[name] for name in Share.__dataclass_fields__)


class Shares:
    """Of a link the database has the hash alone: it cannot be read out there."""

    def __init__(self, database: Database, texts: Messages, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._database = database
        self._texts = texts
        self._clock = clock

    async def share(
        self, user_id: str, chat_id: str, message_id: str | None, lasts_s: float | None
    ) -> tuple[Share, str]:
        """Share a thread up to a message, or to the end of the one that is open; the token is told once.

        `lasts_s`: None: until it is revoked. Raises NotFound, Invalid.
        """
        async with self._database.write() as write:
            chat = await own_chat(write, user_id, chat_id)
            tail = message_id or chat.active_thread_tail_message_id
            # On this connection: whoever holds one must not wait for another.
            found = select(messages).where(messages.c.chat_id == chat_id, messages.c.id == tail)
            row = (await write.execute(found)).first()
            if row is None:
                raise Invalid("message_id", "there is no such message in this chat")
            message = Message.of(row)
            if not message.state.is_final:
                raise Invalid("message_id", "it is still being answered")
            token, now = secrets.token_urlsafe(32), self._clock()
            made = await write.execute(
                shares.insert()
                .values(
                    id=new_id(),
                    token_hash=hashed(token),
                    chat_id=chat_id,
                    message_id=message.id,
                    title=chat.title,
                    created_at=now,
                    expires_at=None if lasts_s is None else now + lasts_s,
                )
                .returning(*_COLUMNS)
            )
            return Share(**made.one()._mapping), token

    async def of_chat(self, user_id: str, chat_id: str) -> list[Share]:
        """Those that still open something. Raises NotFound."""
        async with self._database.read() as read:
            await own_chat(read, user_id, chat_id)
            wanted = select(*_COLUMNS).where(shares.c.chat_id == chat_id, self._valid())
            rows = await read.execute(wanted.order_by(shares.c.id))
            return [Share(**row._mapping) for row in rows]

    async def revoke(self, user_id: str, chat_id: str, share_id: str) -> None:
        """It opens nothing any more. Raises NotFound."""
        async with self._database.write() as write:
            await own_chat(write, user_id, chat_id)
            gone = delete(shares).where(shares.c.id == share_id, shares.c.chat_id == chat_id)
            if (await write.execute(gone)).rowcount == 0:
                raise NotFound("Share not found")

    async def open(self, token: str) -> tuple[Share, list[Message]]:
        """What is shared, the first message first. Raises NotFound."""
        wanted = (
            select(*_COLUMNS)
            .join(chats, chats.c.id == shares.c.chat_id)
            .join(users, users.c.id == chats.c.user_id)
            .where(shares.c.token_hash == hashed(token), self._valid(), users.c.deleted.is_(False))
        )
        async with self._database.read() as read:
            row = (await read.execute(wanted)).first()
        if row is None:
            raise NotFound("There is nothing shared under this link, or not any more")
        share = Share(**row._mapping)
        return share, await self._texts.thread(share.message_id)

    def _valid(self) -> ColumnElement[bool]:
        return or_(shares.c.expires_at.is_(None), shares.c.expires_at > self._clock())
