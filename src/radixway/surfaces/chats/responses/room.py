"""What responses need beside chats: their store, and who answers them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from radixway.chat.background import beside
from radixway.chat.completions import Road
from radixway.chat.push import PushWorkers
from radixway.chat.responses import Responses
from radixway.chat.room import ChatRoom
from radixway.routing import Registry
from radixway.surfaces.chats.responses.working import ResponseCompletions, queue_of
from radixway.surfaces.wires.sampling import wrong

_ANY = "*"
"""In place of a model that no worker has named: the road knows what becomes of it."""


class ResponseRoom:
    """Works while `running()`, within which the chats run."""

    def __init__(self, chats: ChatRoom, road: Road, registry: Registry) -> None:
        self.chats = chats
        self.road = road
        self.kept = Responses(chats.database, chats.answers, chats.clock)
        self.unmetered = chats.messages.unmetered()
        self._registry = registry
        say = ResponseCompletions(road, self.kept).say
        self._workers = PushWorkers(chats.answers, say, at_once=chats.config.pushed_at_once)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Responses are answered while this holds, those from before included."""
        async with beside(self._workers.run):
            self.look_for_workers()
            yield

    def look_for_workers(self) -> None:
        """Workers have come or gone. Responses of a model that nobody serves wait."""
        served = self._registry.models()
        self._workers.serve({queue_of(name) for name in (*served, *([_ANY] if served else ()))})

    def queue_for(self, model: str) -> str:
        """Where a response of it waits."""
        return queue_of(model if model in self._registry.models() else _ANY)

    def model_of(self, asked: str | None) -> str:
        """Which one is to answer.

        Raises BadBody (400): nobody says, and there are several, or none; or nobody here can.
        """
        served = self._registry.models()
        if asked and asked not in served and self._is_fetched(asked):
            why = "only workers that fetch their jobs serve it, and they answer no responses"
            raise wrong("model", why, code="unsupported")
        if asked:
            return asked
        if len(served) != 1:
            raise wrong("model", "which model is to answer?", code="missing_field")
        return next(iter(served))

    def _is_fetched(self, model: str) -> bool:
        return any(model in (config.name, config.model_id) for config in self.chats.models.pulled())
