"""Where answers stand in their queues: asked of the database once per queue and second, whoever listens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from radixway.chat.jobs import Jobs, Waiting


@dataclass(frozen=True, slots=True)
class _View:
    """Of one queue at one moment."""

    taken_at: float
    order: dict[str, int]
    """Place by message."""


class Standings:
    """Belongs to one event loop."""

    def __init__(self, jobs: Jobs, clock: Callable[[], float], *, fresh_s: float = 1.0) -> None:
        """`clock`: seconds since 1970. `fresh_s`: how old what is told may be."""
        self._jobs = jobs
        self._clock = clock
        self._fresh_s = fresh_s
        self._views: dict[str, asyncio.Task[_View]] = {}

    async def waiting(self, message_id: str, queue: str, since: float) -> Waiting | None:
        """How many go before it; None while it does not wait. `since`: when it was asked for."""
        view = await self._view(queue, since)
        place = view.order.get(message_id)
        return None if place is None else Waiting(place, len(view.order))

    async def _view(self, queue: str, since: float) -> _View:
        """One that knows what was asked for at `since`: taken later, and lately."""
        looking = self._views.get(queue)
        if looking is not None:
            view = await asyncio.shield(looking)
            if self._clock() - view.taken_at < self._fresh_s and view.taken_at >= since:
                return view
        if self._views.get(queue) is looking:
            self._views[queue] = asyncio.create_task(self._look(queue))
            self._views[queue].add_done_callback(_retrieve)
        return await asyncio.shield(self._views[queue])

    async def _look(self, queue: str) -> _View:
        taken_at = self._clock()
        try:
            order = await self._jobs.order(queue)
        except Exception:
            self._views.pop(queue, None)
            raise
        asyncio.get_running_loop().call_later(self._fresh_s, self._forget, queue, asyncio.current_task())
        return _View(taken_at, {message_id: place for place, message_id in enumerate(order)})

    def _forget(self, queue: str, task: asyncio.Task[Any] | None) -> None:
        if self._views.get(queue) is task:
            del self._views[queue]


def _retrieve(looking: asyncio.Task[_View]) -> None:
    """Whoever asked may have left: what went wrong is nobody's then."""
    if not looking.cancelled():
        looking.exception()
