"""The queue of answers to generate: claimed by lease, given back or ended, never lost.

    ready ──claim──► leased ──finish──► (gone, message complete)
      ▲                │ fail, or the lease runs out
      └── no words yet ┴── words already, or too many attempts ──► (gone or dead, message aborted)

A further question in a chat that is being answered is `blocked` until the answer above it has ended.

Every step is one transaction over the job and its message. A step that names an attempt which is not the
current one changes nothing: its lease was lost.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, cast

from sqlalchemy import and_, case, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat import statements
from radixway.chat.completion_hooks import CompletionHooks
from radixway.chat.database import ChatDatabase
from radixway.chat.ids import new_id
from radixway.chat.messages import end_message
from radixway.chat.records import AnswerJob, Message, MessageState
from radixway.chat.schema import jobs, messages
from radixway.chat.statements import BLOCKED, DEAD, LEASED, READY, UNDER_WAY

_WORKER_GONE = "the worker did not respond any more"


@dataclass(frozen=True, slots=True)
class ReapResult:
    """Jobs that were requeued or ended because they were overdue."""

    requeued: tuple[str, ...]
    """Messages whose worker was lost before it sent a token: they wait again."""
    ended: tuple[tuple[str, MessageState], ...]
    """Messages that were brought to an end without their worker, and how."""
    restarted: tuple[tuple[str, int], ...] = ()
    """Requeued jobs whose text is void, with the attempt that wrote it."""

    def __bool__(self) -> bool:
        return bool(self.requeued or self.ended)


@dataclass(frozen=True, slots=True)
class JobPosition:
    """The place of a job in its queue."""

    position: int
    size: int


class AnswerJobQueue:
    """The jobs of all queues, of all processes that share the database."""

    def __init__(
        self,
        database: ChatDatabase,
        clock: Callable[[], float],
        *,
        lease_s: float = 30.0,
        max_attempts: int = 3,
        restarts: bool = False,
        ends: CompletionHooks | None = None,
    ) -> None:
        """`clock`: seconds since 1970, the same in every process, give or take much less than `lease_s`.

        `restarts`: an answer whose worker is lost midway starts again instead of ending there. `ends`:
        hooks that run at every end.
        """
        self._database = database
        self._clock = clock
        self.lease_s = lease_s
        self._max_attempts = max_attempts
        self._restarts = restarts
        self._ends = ends or CompletionHooks()

    async def claim_job(
        self,
        queues: Collection[str],
        owner: str,
        *,
        worker: dict[str, Any] | None = None,
        worker_id: str | None = None,
    ) -> AnswerJob | None:
        """Lease the first job of `queues` that may begin to `owner`; None where there is none.

        `worker`, `worker_id`: noted with the message.
        """
        now = self._clock()
        lease = {"lease_owner": owner, "lease_until": now + self.lease_s, "attempt_id": new_id()}
        begun = {
            "state": MessageState.IN_PROGRESS,
            "work_begin_at": now,
            "worker_id": worker_id,
            "worker_config": worker,
        }
        async with self._database.write_transaction() as write:
            wanted = {"queues": list(queues), "now": now}
            row = (await write.execute(statements.CLAIM, wanted | lease)).first()
            if row is None:
                return None
            changed = await write.execute(statements.BEGIN_MESSAGE, {"message": row.message_id} | begun)
            chat_id = changed.scalar_one()
        attempt = row.attempts, row.attempt_id, row.lease_until, row.last_error
        return AnswerJob(row.message_id, row.user_id, row.queue, *attempt, chat_id, row.key_id)

    async def give_back_job(self, attempt: str, noted: str | None = None) -> bool:
        """Undo the claim of `attempt`, which sent nothing and is not counted. Returns False if it is lost.

        `noted`: the `last_error` of the next attempt; None: the same as this one's.
        """
        now = self._clock()
        async with self._database.write_transaction() as write:
            message_id = await self._lock_message(write, attempt)
            if message_id is None:
                return False
            await self._requeue_jobs(write, (message_id,), now, noted)
            this = jobs.c.message_id == message_id
            await write.execute(update(jobs).where(this).values(attempts=jobs.c.attempts - 1))
            return True

    async def renew_leases(self, attempts: Collection[str]) -> set[str]:
        """Extend the leases of `attempts`. Returns those that are still held; the others must be let go."""
        renewed = (
            update(jobs)
            .where(jobs.c.attempt_id.in_(attempts), jobs.c.state == LEASED)
            .values(lease_until=self._clock() + self.lease_s)
            .returning(jobs.c.attempt_id)
        )
        async with self._database.write_statement() as write:
            return {attempt for (attempt,) in await write.execute(renewed)}

    async def mark_begun(self, attempt: str) -> bool:
        """Record the first token of `attempt`: it is not retried any more. Returns False if it is lost."""
        async with self._database.write_statement() as write:
            first = {"attempt": attempt, "now": self._clock()}
            return (await write.execute(statements.FIRST_TOKEN, first)).first() is not None

    async def finish_job(self, attempt: str, content: str, **fields: Any) -> Message | None:
        """Complete the answer with `content` and columns `fields`. Returns None if the lease was lost."""
        async with self._database.write_transaction() as write:
            deleted = await write.execute(statements.DELETE_LEASED, {"attempt": attempt})
            message_id = deleted.scalar_one_or_none()
            if message_id is None:
                return None
            complete = {"state": MessageState.COMPLETE, "content": content, "work_end_at": self._clock()}
            return await self._end_message(write, message_id, complete | fields)

    async def fail_job(
        self,
        attempt: str,
        error: str,
        *,
        partial: str | None = None,
        again: bool = True,
        after_s: float = 0.0,
    ) -> MessageState | None:
        """Record that `attempt` failed with `error`. Returns the message's new state; None: it is lost.

        Without text so far (`partial`), or where answers restart, and with attempts left it waits again, for
        `after_s` at least; otherwise it is aborted and keeps its text. `again`: whether a retry may help.
        """
        now = self._clock()
        async with self._database.write_transaction() as write:
            message_id = await self._lock_message(write, attempt)
            if message_id is None:
                return None
            made = select(jobs.c.attempts).where(jobs.c.message_id == message_id)
            left = (await write.execute(made)).scalar_one() < self._max_attempts
            if again and left and (partial is None or self._restarts):
                await self._requeue_jobs(write, (message_id,), now + after_s, error)
                return MessageState.PENDING
            await self._abort_message(write, message_id, now, error, partial)
            return MessageState.ABORTED_BY_WORKER

    async def cancel_job(self, message_id: str, partial: str | None = None) -> bool:
        """Cancel an answer, keeping its text so far (`partial`). Returns whether it was in flight."""
        async with self._database.write_transaction() as write:
            return await end_message(
                write, message_id, MessageState.CANCELLED, self._clock(), partial=partial, ends=self._ends
            )

    async def save_partial_answers(
        self, partial: dict[str, str], state: MessageState = MessageState.IN_PROGRESS
    ) -> None:
        """Save the text so far of answers, by message: what is left of them if this process dies.

        `state`: answers in any other are left as they are.
        """
        async with self._database.write_transaction() as write:
            for message_id, content in partial.items():
                await write.execute(
                    update(messages)
                    .where(messages.c.id == message_id, messages.c.state == state)
                    .values(content=content)
                )

    async def release_waiting(self) -> set[str]:
        """Make jobs ready that waited for an answer above theirs which has ended. Returns their queues."""
        own, question, above = messages.alias(), messages.alias(), messages.alias()
        free = (
            select(own.c.id)
            .join(jobs, and_(jobs.c.message_id == own.c.id, jobs.c.state == BLOCKED))
            .join(question, question.c.id == own.c.parent_id)
            .join(above, above.c.id == question.c.parent_id)
            .where(above.c.state.not_in(UNDER_WAY))
        )
        found = await self._database.fetch_scalars(free)
        if not found:
            return set()
        now = self._clock()
        begin = {"state": READY, "available_at": now, "created_at": now}
        released = (
            update(jobs)
            .where(jobs.c.message_id.in_(found), jobs.c.state == BLOCKED)
            .values(**begin, deadline=now + (jobs.c.deadline - jobs.c.created_at))
            .returning(jobs.c.queue)
        )
        async with self._database.write_transaction() as write:
            return set((await write.execute(released)).scalars())

    async def find_lapsed(self) -> list[tuple[str, int, str | None]]:
        """Return answers with text whose lease ran out: message, attempt, and the text that was saved."""
        wanted = (
            select(jobs.c.message_id, jobs.c.attempts, messages.c.content)
            .join(messages, messages.c.id == jobs.c.message_id)
            .where(jobs.c.state == LEASED, jobs.c.lease_until <= self._clock())
            .where(messages.c.first_token_at.is_not(None))
        )
        return [(row.message_id, row.attempts, row.content) for row in await self._database.fetch_all(wanted)]

    async def reap_overdue(
        self, words: Mapping[str, str] = MappingProxyType({}), *, leases: bool = True
    ) -> ReapResult:
        """End or requeue what is overdue: leases that ran out, jobs that waited too long.

        `words`: text of answers that end here, where it is longer than saved. `leases`: whether they count.
        """
        now = self._clock()
        is_late = and_(jobs.c.state == READY, jobs.c.deadline <= now)
        is_lapsed = and_(jobs.c.state == LEASED, jobs.c.lease_until <= now)
        requeued: list[str] = []
        restarted: list[tuple[str, int]] = []
        ended: list[tuple[str, MessageState]] = []
        async with self._database.write_transaction() as write:
            overdue = await write.execute(
                select(jobs.c.message_id, jobs.c.state, jobs.c.attempts, messages.c.first_token_at)
                .join(messages, messages.c.id == jobs.c.message_id)
                .where(or_(is_late, is_lapsed) if leases else is_late)
                .order_by(jobs.c.number)
                .with_for_update(skip_locked=True, of=jobs)
            )
            for message_id, state, attempts, first_token_at in overdue.all():
                if state == READY:
                    timeout = MessageState.TIMEOUT
                    await end_message(write, message_id, timeout, now, "Timeout", ends=self._ends)
                    ended.append((message_id, timeout))
                elif (first_token_at is None or self._restarts) and attempts < self._max_attempts:
                    await self._requeue_jobs(write, (message_id,), now, _WORKER_GONE)
                    requeued.append(message_id)
                    if first_token_at is not None:
                        restarted.append((message_id, attempts))
                else:
                    await self._abort_message(write, message_id, now, _WORKER_GONE, words.get(message_id))
                    ended.append((message_id, MessageState.ABORTED_BY_WORKER))
        return ReapResult(tuple(requeued), tuple(ended), tuple(restarted))

    async def next_due(self) -> tuple[float | None, bool]:
        """Return when a job is due by time alone (None: never), and whether any job is blocked."""
        [row] = await self._database.fetch_all(statements.TIMES, {"now": self._clock()})
        *times, blocked = row
        return min((at for at in times if at is not None), default=None), blocked > 0

    async def ready_queues(self) -> list[str]:
        """Queues in which a job may begin now."""
        wanted = select(jobs.c.queue).where(jobs.c.state == READY, jobs.c.available_at <= self._clock())
        return await self._database.fetch_scalars(wanted.distinct())

    async def queue_depths(self) -> dict[str, int]:
        """Return the number of answers that wait for a worker, by model."""
        wanted = (
            select(messages.c.model, func.count().label("waiting"))
            .join(jobs, jobs.c.message_id == messages.c.id)
            .where(jobs.c.state == READY)
            .group_by(messages.c.model)
        )
        return {row.model: row.waiting for row in await self._database.fetch_all(wanted)}

    async def job_ages(self) -> dict[str, tuple[int, float]]:
        """Return the number of jobs and the age of the oldest in seconds, by state."""
        counted = select(jobs.c.state, func.count().label("many"), func.min(jobs.c.created_at).label("first"))
        now = self._clock()
        found = {row.state: row for row in await self._database.fetch_all(counted.group_by(jobs.c.state))}
        return {
            state: (found[state].many, max(now - found[state].first, 0.0)) if state in found else (0, 0.0)
            for state in (READY, LEASED, BLOCKED, DEAD)
        }

    async def find_position(self, message_id: str) -> JobPosition | None:
        """Return the place of `message_id` in its queue; None once it is not waiting."""
        own = select(jobs.c.queue, jobs.c.priority, jobs.c.number).where(
            jobs.c.message_id == message_id, jobs.c.state == READY
        )
        async with self._database.read_connection() as read:
            job = (await read.execute(own)).first()
            if job is None:
                return None
            before = or_(
                jobs.c.priority > job.priority,
                and_(jobs.c.priority == job.priority, jobs.c.number < job.number),
            )
            counted = select(func.count(), func.sum(case((before, 1), else_=0))).where(
                jobs.c.state == READY, jobs.c.queue == job.queue
            )
            size, position = (await read.execute(counted)).one()
            return JobPosition(int(position or 0), size)

    async def find_queue(self, message_id: str) -> str | None:
        """Return the queue of `message_id`'s job; None where it has none any more."""
        row = await self._database.fetch_first(statements.QUEUE_OF, {"message": message_id})
        return None if row is None else row.queue

    async def list_waiting(self, queue: str) -> list[str]:
        """Return the messages that wait in `queue`, the next one first."""
        return await self._database.fetch_scalars(statements.ORDER, {"of_queue": queue})

    async def _lock_message(self, write: AsyncConnection, attempt: str) -> str | None:
        found = await write.execute(statements.LEASED_MESSAGE, {"attempt": attempt})
        return cast("str | None", found.scalar_one_or_none())

    async def _requeue_jobs(
        self, write: AsyncConnection, ids: Sequence[str], at: float, error: str | None
    ) -> None:
        noted = {} if error is None else {"last_error": error}
        await write.execute(
            update(jobs)
            .where(jobs.c.message_id.in_(ids))
            .values(
                state=READY,
                available_at=at,
                deadline=at + (jobs.c.deadline - jobs.c.created_at),
                attempt_id=None,
                lease_owner=None,
                lease_until=None,
                **noted,
            )
        )
        await write.execute(
            update(messages)
            .where(messages.c.id.in_(ids))
            .values(
                state=MessageState.PENDING,
                content=None,
                work_begin_at=None,
                first_token_at=None,
                worker_id=None,
                worker_config=None,
            )
        )

    async def _abort_message(
        self, write: AsyncConnection, message_id: str, now: float, error: str, partial: str | None = None
    ) -> None:
        values: dict[str, Any] = {"state": MessageState.ABORTED_BY_WORKER, "error": error, "work_end_at": now}
        if partial is not None:
            values["content"] = partial
        await self._end_message(write, message_id, values)
        await write.execute(
            update(jobs)
            .where(jobs.c.message_id == message_id)
            .values(state=DEAD, attempt_id=None, lease_owner=None, lease_until=None, last_error=error)
        )

    async def _end_message(self, write: AsyncConnection, message_id: str, values: dict[str, Any]) -> Message:
        changed = await write.execute(statements.END_MESSAGE, {"message": message_id} | values)
        message = Message.of_row(changed.one())
        await self._ends.run_hooks(write, message)
        return message
