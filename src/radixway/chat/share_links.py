"""Share links: their token lets anyone read a thread up to a message, until it expires or is revoked."""

import secrets
from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import ColumnElement, delete, or_, select

from radixway.chat.database import ChatDatabase
from radixway.chat.errors import ChatNotFoundError, InvalidFieldError
from radixway.chat.ids import hash_secret, new_id
from radixway.chat.messages import MessageStore, own_chat
from radixway.chat.records import Message
from radixway.chat.schema import chats, messages, shares, users


@dataclass(frozen=True, slots=True)
class ShareLink:
    """A share without the token that opens it."""

    id: str
    chat_id: str
    message_id: str
    title: str | None
    created_at: float
    expires_at: float | None


_COLUMNS = tuple(shares.c[name] for name in ShareLink.__dataclass_fields__)


class ShareLinks:
    """Share links of all users. The database has only hashes of their tokens."""

    def __init__(self, database: ChatDatabase, texts: MessageStore, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._database = database
        self._texts = texts
        self._clock = clock

    async def create_link(
        self, user_id: str, chat_id: str, message_id: str | None, lasts_s: float | None
    ) -> tuple[ShareLink, str]:
        """Share a thread up to a message, or to the end of the one that is open; the token is told once.

        `lasts_s`: None: until it is revoked. Raises ChatNotFoundError, InvalidFieldError.
        """
        async with self._database.write_transaction() as write:
            chat = await own_chat(write, user_id, chat_id)
            tail = message_id or chat.active_thread_tail_message_id
            # On this connection: whoever holds one must not wait for another.
            found = select(messages).where(messages.c.chat_id == chat_id, messages.c.id == tail)
            row = (await write.execute(found)).first()
            if row is None:
                raise InvalidFieldError("message_id", "there is no such message in this chat")
            message = Message.of_row(row)
            if not message.state.is_final:
                raise InvalidFieldError("message_id", "it is still being answered")
            token, now = secrets.token_urlsafe(32), self._clock()
            made = await write.execute(
                shares.insert()
                .values(
                    id=new_id(),
                    token_hash=hash_secret(token),
                    chat_id=chat_id,
                    message_id=message.id,
                    title=chat.title,
                    created_at=now,
                    expires_at=None if lasts_s is None else now + lasts_s,
                )
                .returning(*_COLUMNS)
            )
            return ShareLink(**made.one()._mapping), token

    async def list_links(self, user_id: str, chat_id: str) -> list[ShareLink]:
        """Return the valid links of `chat_id`. Raises ChatNotFoundError."""
        async with self._database.read_connection() as read:
            await own_chat(read, user_id, chat_id)
            wanted = select(*_COLUMNS).where(shares.c.chat_id == chat_id, self._is_valid())
            rows = await read.execute(wanted.order_by(shares.c.id))
            return [ShareLink(**row._mapping) for row in rows]

    async def revoke_link(self, user_id: str, chat_id: str, share_id: str) -> None:
        """Delete the link `share_id`. Raises ChatNotFoundError."""
        async with self._database.write_transaction() as write:
            await own_chat(write, user_id, chat_id)
            gone = delete(shares).where(shares.c.id == share_id, shares.c.chat_id == chat_id)
            if (await write.execute(gone)).rowcount == 0:
                raise ChatNotFoundError("Share not found")

    async def open_link(self, token: str) -> tuple[ShareLink, list[Message]]:
        """Return the share that `token` opens, and its thread, root first. Raises ChatNotFoundError."""
        wanted = (
            select(*_COLUMNS)
            .join(chats, chats.c.id == shares.c.chat_id)
            .join(users, users.c.id == chats.c.user_id)
            .where(shares.c.token_hash == hash_secret(token), self._is_valid(), users.c.deleted.is_(False))
        )
        row = await self._database.fetch_first(wanted)
        if row is None:
            raise ChatNotFoundError("There is nothing shared under this link, or not any more")
        share = ShareLink(**row._mapping)
        return share, await self._texts.load_thread(share.message_id)

    def _is_valid(self) -> ColumnElement[bool]:
        return or_(shares.c.expires_at.is_(None), shares.c.expires_at > self._clock())
