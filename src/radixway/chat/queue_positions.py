"""Queue positions of answers, read once per queue and second for all listeners, and estimated waits."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select

from radixway.chat.database import ChatDatabase
from radixway.chat.job_queue import AnswerJobQueue, JobPosition
from radixway.chat.records import Message, MessageState
from radixway.chat.schema import messages


@dataclass(frozen=True, slots=True)
class _QueueView:
    taken_at: float
    order: dict[str, int]


class QueuePositions:
    """Positions, cached for a second. Belongs to one event loop."""

    def __init__(self, jobs: AnswerJobQueue, clock: Callable[[], float], *, fresh_s: float = 1.0) -> None:
        """`clock`: seconds since 1970. `fresh_s`: maximum age of a position."""
        self._jobs = jobs
        self._clock = clock
        self._fresh_s = fresh_s
        self._views: dict[str, asyncio.Task[_QueueView]] = {}

    async def find_position(self, message_id: str, queue: str, since: float) -> JobPosition | None:
        """Return the place of a message requested at `since`; None while it does not wait."""
        view = await self._fresh_view(queue, since)
        place = view.order.get(message_id)
        return None if place is None else JobPosition(place, len(view.order))

    async def _fresh_view(self, queue: str, since: float) -> _QueueView:
        """Return a recent view that was taken after `since`."""
        looking = self._views.get(queue)
        if looking is not None:
            view = await asyncio.shield(looking)
            if self._clock() - view.taken_at < self._fresh_s and view.taken_at >= since:
                return view
        if self._views.get(queue) is looking:
            self._views[queue] = asyncio.create_task(self._load_view(queue))
            self._views[queue].add_done_callback(_consume_error)
        return await asyncio.shield(self._views[queue])

    async def _load_view(self, queue: str) -> _QueueView:
        taken_at = self._clock()
        try:
            order = await self._jobs.list_waiting(queue)
        except Exception:
            self._views.pop(queue, None)
            raise
        asyncio.get_running_loop().call_later(self._fresh_s, self._drop_view, queue, asyncio.current_task())
        return _QueueView(taken_at, {message_id: place for place, message_id in enumerate(order)})

    def _drop_view(self, queue: str, task: asyncio.Task[Any] | None) -> None:
        if self._views.get(queue) is task:
            del self._views[queue]


def _consume_error(looking: asyncio.Task[_QueueView]) -> None:
    """Consume the error of a lookup whose caller may have left."""
    if not looking.cancelled():
        looking.exception()


_RECENT_WINDOW_S = 300.0


@dataclass(frozen=True, slots=True)
class QueueEstimate(JobPosition):
    """The place of an answer in its queue, and its estimated wait."""

    eta_s: float | None
    """Until it starts; None: no answer of its model started recently."""


class QueuePace:
    """Estimates waits from the rate at which answers started recently, as the database has it."""

    def __init__(self, database: ChatDatabase, jobs: AnswerJobQueue, clock: Callable[[], float]) -> None:
        """`clock`: seconds since 1970."""
        self._database = database
        self._jobs = jobs
        self._clock = clock

    async def estimate_wait(self, message: Message) -> QueueEstimate | None:
        """Return the place and estimated wait of `message`; None while it does not wait for a worker."""
        if message.state is not MessageState.PENDING:
            return None
        stands = await self._jobs.find_position(message.id)
        if stands is None:
            return None
        now = self._clock()
        lately = select(func.count(), func.min(messages.c.work_begin_at)).where(
            messages.c.work_begin_at > now - _RECENT_WINDOW_S, messages.c.model == message.model
        )
        [(begun, first_at)] = await self._database.fetch_all(lately)
        eta_s = None if not begun else (stands.position + 1) * (now - first_at) / begun
        return QueueEstimate(stands.position, stands.size, eta_s)
