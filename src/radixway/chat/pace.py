"""How long an answer will wait, from how fast the ones before it were begun."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlalchemy import func, select

from radixway.chat.database import ChatDatabase
from radixway.chat.jobs import AnswerJobQueue
from radixway.chat.records import Message, MessageState
from radixway.chat.schema import messages

_RECENT_WINDOW_S = 300.0


@dataclass(frozen=True, slots=True)
class QueueEstimate:
    """Where an answer stands in its queue."""

    position: int
    """How many go before it."""
    size: int
    eta_s: float | None
    """Until it is begun; None: none of its model was begun lately."""


class QueuePace:
    """Reads all from the database: it is the same for every process, and right after a restart."""

    def __init__(self, database: ChatDatabase, jobs: AnswerJobQueue, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._database = database
        self._jobs = jobs
        self._clock = clock

    async def estimate_wait(self, message: Message) -> QueueEstimate | None:
        """None while it does not wait for a worker."""
        if message.state is not MessageState.PENDING:
            return None
        stands = await self._jobs.find_position(message.id)
        if stands is None:
            return None
        now = self._clock()
        lately = select(func.count(), func.min(messages.c.work_begin_at)).where(
            messages.c.work_begin_at > now - _RECENT_WINDOW_S, messages.c.model == message.model
        )
        async with self._database.read_connection() as read:
            begun, first_at = (await read.execute(lately)).one()
        eta_s = None if not begun else (stands.position + 1) * (now - first_at) / begun
        return QueueEstimate(stands.position, stands.size, eta_s)
