"""Responses beside chats: their store, and their jobs, which go through the pipeline as chat completions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from radixway.api.chats.responses.completion_parser import encode_part
from radixway.api.chats.responses.shapes import answer_to_blocks, failure_fields
from radixway.api.chats.responses.worker_request import (
    build_worker_request,
    conversation_messages,
    send_worker_request,
)
from radixway.api.protocols.answer import GeneratedAnswer
from radixway.api.protocols.request_fields import field_error
from radixway.chat.answer_attempt import AnswerAttempt
from radixway.chat.background_tasks import run_concurrently
from radixway.chat.local_completions import CompletionRefusedError, LocalWorkers, PipelineCall
from radixway.chat.service import ChatService
from radixway.chat.stored_responses import ResponseStore
from radixway.core.http import HttpError
from radixway.core.parsers import ReadPart, TextPart
from radixway.routing import WorkerRegistry


def response_queue(model: str) -> str:
    """Return the queue in which responses of `model` wait."""
    return f"responses:{model}"


class ResponseCompletions:
    """Has responses answered by the gateway's workers."""

    def __init__(self, road: PipelineCall, responses: ResponseStore) -> None:
        self._road = road
        self._responses = responses

    async def complete_attempt(self, attempt: AnswerAttempt) -> dict[str, Any]:
        """Answer the response of `attempt` by a worker of the gateway. Raises CompletionRefusedError."""
        kept = await self._responses.get_response(attempt.answer.id)
        if kept is None:
            raise CompletionRefusedError("the response was deleted", again=False)
        thread = attempt.thread[:-1]
        questions, answers = await self._responses.load_items([message.id for message in thread])
        told = conversation_messages(thread, questions, answers)
        job = attempt.job
        request = build_worker_request(
            job.attempt_id, job.user_id, kept.message.model or "", kept.request, told
        )
        answer = GeneratedAnswer()

        async def tell(part: ReadPart) -> None:
            answer.add_part(part)
            if isinstance(part, TextPart):
                await attempt.send_text(part.text)
            else:
                await attempt.send_event(encode_part(part))

        try:
            heard = await send_worker_request(self._road, request, tell)
        except HttpError as error:
            await self._responses.save_failure(job.message_id, failure_fields(error))
            # Whoever waits for an answer is told at once; what goes on in the background is tried again.
            again = error.status >= 500 or (error.status == 429 and kept.background)
            raise CompletionRefusedError(error.client_message, again=again) from error
        finally:
            if answer.blocks:
                await self._responses.save_output(job.message_id, job.attempt_id, answer_to_blocks(answer))
        return {"usage": heard.usage, "finish_reason": heard.finish_reason}


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
        """Serve the queues of the models that workers serve now. Responses of a model that nobody serves
        wait.
        """
        served = self._registry.known_models()
        self._workers.set_queues({response_queue(name) for name in (*served, *([_ANY] if served else ()))})

    def queue_for(self, model: str) -> str:
        """Return the queue in which a response of `model` waits."""
        return response_queue(model if model in self._registry.known_models() else _ANY)

    def resolve_model(self, asked: str | None) -> str:
        """Return the model that answers a request for the model `asked`.

        Raises BadBodyError (400): nobody says, and there are several, or none; or nobody here can.
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
