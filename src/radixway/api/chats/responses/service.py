"""Responses beside chats: their owners, their store, and their jobs, which run as chat completions."""

import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from fastapi import HTTPException, Request

from radixway.api.chats.auth_dependencies import ChatAuthenticator
from radixway.api.chats.responses.completions import (
    build_worker_request,
    conversation_messages,
    encode_part,
    send_worker_request,
)
from radixway.api.chats.responses.shapes import answer_to_blocks, failure_fields
from radixway.chat.answer_attempt import AnswerAttempt
from radixway.chat.api_keys import PREFIX
from radixway.chat.background_tasks import run_concurrently
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.local_completions import CompletionRefusedError, LocalWorkers, PipelineCall
from radixway.chat.messages import MessageStore
from radixway.chat.records import OF_TENANTS
from radixway.chat.service import ChatService
from radixway.chat.stored_responses import ResponseStore
from radixway.chat.user_tokens import InvalidTokenError
from radixway.core.config import DEFAULT_TENANT
from radixway.core.http import HttpError
from radixway.core.parsers import ReadPart, TextPart
from radixway.core.pipeline import UnauthorizedError
from radixway.core.protocols.answer import GeneratedAnswer
from radixway.core.protocols.request import field_error
from radixway.routing import WorkerRegistry

_LOCAL = "local"
"""Provider of the one user of a gateway without keys."""
_PROGRAMS = frozenset({_LOCAL, OF_TENANTS})
"""Providers of users that are no single persons, so that limits per person do not apply."""


@dataclass(frozen=True, slots=True)
class ResponseOwner:
    """The user who has a response."""

    user_id: str
    is_person: bool


class ResponseOwners:
    """Finds the owner of a request by its credentials."""

    def __init__(
        self, service: ChatService, auth: ChatAuthenticator, *, keys_are_needed: Callable[[], bool]
    ) -> None:
        """`keys_are_needed`: whether there are keys. Else any key will do, as for chat completions, and all
        requests without credentials of chats belong to one local user."""
        self._service = service
        self._auth = auth
        self._keys_are_needed = keys_are_needed

    async def owner_of_request(self, request: Request) -> ResponseOwner:
        """Return the owner by the credentials of `request`. Raises UnauthorizedError."""
        if not self._keys_are_needed() and not _brings_chat_credentials(request):
            return ResponseOwner(await self._local_user(), is_person=False)
        try:
            user = await self._service.accounts.find_user(await self._auth.require_user(request))
        except (HTTPException, InvalidTokenError, ChatNotFoundError) as error:
            message = str(error.detail if isinstance(error, HTTPException) else error)
            raise UnauthorizedError(message, code="invalid_api_key") from None
        return ResponseOwner(user.id, user.provider not in _PROGRAMS)

    async def _local_user(self) -> str:
        accounts = self._service.accounts
        known = await accounts.find_provider_user(DEFAULT_TENANT, _LOCAL, _LOCAL)
        if known is None:
            known = await accounts.enroll_user(
                DEFAULT_TENANT, _LOCAL, _LOCAL, _LOCAL, new_id=str(uuid.uuid4())
            )
        return known.id


def _brings_chat_credentials(request: Request) -> bool:
    """Return whether the request has a chat key or a token (with four dots), valid or not."""
    if "trustedclient" in request.headers:
        return True
    given = request.headers.get("authorization", "").partition(" ")[2] or request.headers.get("x-api-key", "")
    return given.count(".") == 4 or given.startswith(PREFIX)


_ANY = "*"
"""In place of a model that no worker has named: the pipeline decides what becomes of it."""


class ResponseService:
    """Answers responses while `running()`, inside the time that chats run."""

    def __init__(
        self,
        chats: ChatService,
        pipeline: PipelineCall,
        count_tokens: PipelineCall,
        registry: WorkerRegistry,
    ) -> None:
        """`count_tokens`: counts the tokens of a request that `pipeline` would answer."""
        self.chats = chats
        self.pipeline = pipeline
        self.count_tokens = count_tokens
        self.store = ResponseStore(chats.database, chats.answers, chats.clock)
        self._unmetered = chats.messages.without_limits()
        self._registry = registry
        self._workers = LocalWorkers(
            chats.answers, self._complete_attempt, at_once=chats.config.pushed_at_once
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Responses are answered while this holds, those from before included."""
        async with run_concurrently(self._workers.answer_jobs):
            self.update_queues()
            yield

    def update_queues(self) -> None:
        """Serve the queues of the models that workers serve now; responses of other models wait."""
        served = self._registry.known_models()
        self._workers.set_queues({f"responses:{name}" for name in (*served, *([_ANY] if served else ()))})

    def queue_for(self, model: str) -> str:
        """Return the queue in which a response of `model` waits."""
        return f"responses:{model if model in self._registry.known_models() else _ANY}"

    def messages_for(self, owner: ResponseOwner) -> MessageStore:
        """Return the store for questions of `owner`: limits are of persons alone."""
        return self.chats.messages if owner.is_person else self._unmetered

    def resolve_model(self, model: str | None) -> str:
        """Return the model for a request that names `model`, or none. Raises BadBodyError (400)."""
        served = self._registry.known_models()
        if model:
            pulled = self.chats.models.pulled()
            if model not in served and any(model in (config.name, config.model_id) for config in pulled):
                reason = "only workers that fetch their jobs serve it, and they answer no responses"
                raise field_error("model", reason, code="unsupported")
            return model
        if len(served) != 1:
            raise field_error("model", "which model is to answer?", code="missing_field")
        return next(iter(served))

    async def _complete_attempt(self, attempt: AnswerAttempt) -> dict[str, Any]:
        stored = await self.store.get_response(attempt.answer.id)
        if stored is None:
            raise CompletionRefusedError("the response was deleted", again=False)
        thread = attempt.thread[:-1]
        questions, answers = await self.store.load_items([message.id for message in thread])
        messages = conversation_messages(thread, questions, answers)
        job = attempt.job
        request = build_worker_request(
            job.attempt_id, job.user_id, stored.message.model or "", stored.request, messages
        )
        answer = GeneratedAnswer()

        async def pass_on(part: ReadPart) -> None:
            answer.add_part(part)
            if isinstance(part, TextPart):
                await attempt.send_text(part.text)
            else:
                await attempt.send_event(encode_part(part))

        try:
            completion = await send_worker_request(self.pipeline, request, pass_on)
            answer.place_scores(completion.scores)
        except HttpError as error:
            await self.store.save_failure(job.message_id, failure_fields(error))
            # A waiting client gets the error at once; a background response is retried.
            again = error.status >= 500 or (error.status == 429 and stored.background)
            raise CompletionRefusedError(error.client_message, again=again) from error
        finally:
            if answer.blocks:
                await self.store.save_output(job.message_id, job.attempt_id, answer_to_blocks(answer))
        return {"usage": completion.usage, "finish_reason": completion.finish_reason}
