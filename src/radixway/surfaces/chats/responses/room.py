"""What responses need beside chats: their store, and who answers them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from radixway.chat.background import run_concurrently
from radixway.chat.completions import PipelineCall
from radixway.chat.push import LocalWorkers
from radixway.chat.responses import ResponseStore
from radixway.chat.room import ChatService
from radixway.routing import WorkerRegistry
from radixway.surfaces.chats.responses.working import ResponseCompletions, response_queue
from radixway.surfaces.wires.sampling import field_error

_ANY = "*"
"""In place of a model that no worker has named: the road knows what becomes of it."""


class ResponseService:
    """Works while `running()`, within which the chats run."""

    def __init__(self, chats: ChatService, road: PipelineCall, registry: WorkerRegistry) -> None:
        self.chats = chats
        self.road = road
        self.kept = ResponseStore(chats.database, chats.answers, chats.clock)
        self.unmetered = chats.messages.without_limits()
        self._registry = registry
        say = ResponseCompletions(road, self.kept).complete_attempt
        self._workers = LocalWorkers(chats.answers, say, at_once=chats.config.pushed_at_once)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Responses are answered while this holds, those from before included."""
        async with run_concurrently(self._workers.answer_jobs):
            self.update_queues()
            yield

    def update_queues(self) -> None:
        """Workers have come or gone. Responses of a model that nobody serves wait."""
        served = self._registry.known_models()
        self._workers.set_queues({response_queue(name) for name in (*served, *([_ANY] if served else ()))})

    def queue_for(self, model: str) -> str:
        """Where a response of it waits."""
        return response_queue(model if model in self._registry.known_models() else _ANY)

    def resolve_model(self, asked: str | None) -> str:
        """Which one is to answer.

        Raises BadBody (400): nobody says, and there are several, or none; or nobody here can.
        """
        served = self._registry.known_models()
        if asked and asked not in served and self._is_pull_model(asked):
            why = "only workers that fetch their jobs serve it, and they answer no responses"
            raise field_error("model", why, code="unsupported")
        if asked:
            return asked
        if len(served) != 1:
            raise field_error("model", "which model is to answer?", code="missing_field")
        return next(iter(served))

    def _is_pull_model(self, model: str) -> bool:
        return any(model in (config.name, config.model_id) for config in self.chats.models.pulled())
