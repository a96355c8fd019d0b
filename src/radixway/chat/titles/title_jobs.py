"""Jobs of chats that need a title."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, delete, func, literal, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.completion_hooks import EndedAnswer
from radixway.chat.database import ChatDatabase
from radixway.chat.ids import new_id
from radixway.chat.records import MessageState
from radixway.chat.schema import chats, title_jobs
from radixway.chat.webhooks import WebhookEvent, WebhookOutbox

_LEASE_S = 120.0


@dataclass(frozen=True, slots=True)
class TitleJob:
    """A chat that needs a title."""

    chat_id: str
    message_id: str
    attempts: int
    attempt_id: str
    user_id: str
    """Whose chat it is."""


_OWN = ("chat_id", "message_id", "attempts", "attempt_id")


class TitleJobs:
    """The jobs of all processes that share the database."""

    def __init__(self, database: ChatDatabase, clock: Callable[[], float], outbox: WebhookOutbox) -> None:
        """`clock`: seconds since 1970."""
        self._database = database
        self._clock = clock
        self._outbox = outbox
        self.on_news: Callable[[], None] = lambda: None
        """Called after a transaction in which a job was written."""

    async def answer_ended(self, write: AsyncConnection, answer: EndedAnswer) -> None:
        """Write a job if `answer` completes in a chat without a title: a completion hook."""
        if answer.state is not MessageState.COMPLETE:
            return
        insert = sqlite.insert if write.dialect.name == "sqlite" else postgresql.insert
        nameless = select(chats.c.id, literal(answer.id), literal(self._clock())).where(
            chats.c.id == answer.chat_id, chats.c.titled_by.is_(None)
        )
        wanted = insert(title_jobs).from_select(["chat_id", "message_id", "available_at"], nameless)
        made = await write.execute(wanted.on_conflict_do_nothing().returning(title_jobs.c.chat_id))
        if made.first() is not None:
            self._database.call_after_commit(write, self.on_news)

    async def claim_title(self) -> TitleJob | None:
        """Lease the job that has waited longest; it is due again when the lease ends."""
        now = self._clock()
        first = (
            select(title_jobs.c.chat_id)
            .where(title_jobs.c.available_at <= now)
            .order_by(title_jobs.c.available_at)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        owner = select(chats.c.user_id).where(chats.c.id == title_jobs.c.chat_id).scalar_subquery()
        take = (
            update(title_jobs)
            .where(title_jobs.c.chat_id == first.scalar_subquery(), title_jobs.c.available_at <= now)
            .values(attempts=title_jobs.c.attempts + 1, attempt_id=new_id(), available_at=now + _LEASE_S)
            .returning(*(title_jobs.c[name] for name in _OWN), owner.label("user_id"))
        )
        async with self._database.write_transaction() as write:
            row = (await write.execute(take)).first()
            return None if row is None else TitleJob(**row._mapping)

    async def save_title(self, job: TitleJob, title: str | None) -> bool:
        """Save `title`, unless the chat was named meanwhile. None: it keeps its first words.

        Returns whether it was named.
        """
        values = {"titled_by": "first_words"} if title is None else {"title": title, "titled_by": "model"}
        still = select(title_jobs.c.chat_id).where(*_is_held(job)).exists()
        async with self._database.write_transaction() as write:
            named = (
                update(chats)
                .where(chats.c.id == job.chat_id, chats.c.titled_by.is_(None), still)
                .values(**values)
                .returning(chats.c.user_id)
            )
            user_id: str | None = (await write.execute(named)).scalar_one_or_none()
            await write.execute(delete(title_jobs).where(*_is_held(job)))
            if user_id is None or title is None:
                return False
            await self._outbox.put(write, user_id, WebhookEvent("chat.titled", job.chat_id))
            return True

    async def requeue_title(self, job: TitleJob, after_s: float, *, counts: bool = True) -> None:
        """Give `job` back for `after_s` seconds. `counts`: as an attempt."""
        values: dict[str, Any] = {"available_at": self._clock() + after_s}
        if not counts:
            values["attempts"] = job.attempts - 1
        async with self._database.write_transaction() as write:
            await write.execute(update(title_jobs).where(*_is_held(job)).values(**values))

    async def next_due(self) -> float | None:
        """Return when the first job is due; None: there is none."""
        async with self._database.read_connection() as read:
            found: float | None = (
                await read.execute(select(func.min(title_jobs.c.available_at)))
            ).scalar_one()
            return found


def _is_held(job: TitleJob) -> tuple[ColumnElement[bool], ...]:
    return title_jobs.c.chat_id == job.chat_id, title_jobs.c.attempt_id == job.attempt_id
