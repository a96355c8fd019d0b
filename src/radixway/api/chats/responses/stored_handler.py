"""`POST /v1/responses`: a response that is kept, in the foreground or in the background."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import msgspec
from fastapi import Request, Response
from fastapi.responses import JSONResponse

from radixway.api.chats.errors import not_found_error, previous_not_found_error
from radixway.api.chats.responses.event_stream import (
    sse_response,
    stream_response_events,
)
from radixway.api.chats.responses.request_schema import ResponseCreateParams
from radixway.api.chats.responses.service import ResponseOwner, ResponseService
from radixway.api.chats.responses.shapes import (
    CONVERSATION,
    RESPONSE,
    external_id,
    internal_id,
    items_text,
    render_response,
    stored_failure,
)
from radixway.api.client_requests import run_while_connected
from radixway.chat import stored_responses as store
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.records import MessageState
from radixway.chat.stored_responses import NewResponse
from radixway.chat.token_log import TokenLogEntry
from radixway.core.http import ClientDisconnectedError, is_server_stopping

T = TypeVar("T")


class StoredResponseHandler:
    """Makes responses that are kept, and tells them."""

    def __init__(self, service: ResponseService) -> None:
        self._service = service
        self._answers = service.chats.answers
        self._cancelling: set[asyncio.Task[Any]] = set()

    async def create_response(
        self, request: Request, owner: ResponseOwner, params: ResponseCreateParams
    ) -> Response:
        """Store and answer `params`. Raises HttpError, ChatError, ClientDisconnectedError."""
        stored = await self._save_request(owner, params, request.headers.get("idempotency-key"))
        if stored.background:
            if params.ask.stream:
                return await self.stream_response(request, stored)
            return JSONResponse(render_response(stored))
        entries = await self._answers.follow_answer(stored.message)
        if not params.ask.stream:
            await self._wait_while_connected(request, owner, stored, _drain_entries(entries))
            return JSONResponse(render_response(await self._reload_finished(owner, stored)))
        if entries is not None:
            first = await self._wait_while_connected(request, owner, stored, anext(entries, None))
            if first is not None and msgspec.json.decode(first.event)["event_type"] == "error":
                stored = await self._reload_finished(owner, stored)
            entries = None if first is None else _prepend_entry(first, entries)
        is_stopping = partial(is_server_stopping, request.scope)
        events = stream_response_events(self._service, stored, entries, is_stopping=is_stopping)
        return sse_response(self._stream_while_connected(owner, stored, events, is_stopping))

    async def stream_response(
        self, request: Request, stored: store.StoredResponse, after: int = -1
    ) -> Response:
        """Stream the events after number `after`; the client may leave."""
        is_forgotten = stored.message.state.is_final and not await self._answers.has_log(stored.message.id)
        entries = None if is_forgotten else await self._answers.follow_answer(stored.message)
        is_stopping = partial(is_server_stopping, request.scope)
        return sse_response(stream_response_events(self._service, stored, entries, after, is_stopping))

    async def _save_request(
        self, owner: ResponseOwner, params: ResponseCreateParams, key: str | None
    ) -> store.StoredResponse:
        model = self._service.resolve_model(params.ask.model)
        previous, conversation = params.ask.previous_response_id, params.conversation_id
        try:
            new = NewResponse(
                items_text(params.items),
                params.items,
                params.request,
                self._service.queue_for(model),
                model,
                {"sampling_parameters": {}, "system_prompt": params.request.get("instructions")},
                background=params.is_background,
                previous=None if previous is None else internal_id(RESPONSE, previous),
                conversation=None if conversation is None else internal_id(CONVERSATION, conversation),
                waits_s=None if params.is_background else self._service.chats.config.waits_s,
                idempotency_key=key,
                request_digest=None if key is None else params.digest_request(),
            )
            return await self._service.store.create_response(
                owner.user_id, new, self._service.messages_for(owner)
            )
        except ChatNotFoundError:
            if conversation is not None:
                raise not_found_error("Conversation", conversation, "conversation") from None
            raise previous_not_found_error(previous or "") from None

    async def _reload_finished(
        self, owner: ResponseOwner, stored: store.StoredResponse
    ) -> store.StoredResponse:
        """The response now that it has ended; one that failed before its first word is deleted and raised."""
        ended = await self._service.store.get_response(stored.message.id)
        if ended is None:
            raise not_found_error("Response", external_id(RESPONSE, stored.message.id), "response_id")
        failed = ended.message.state in (MessageState.ABORTED_BY_WORKER, MessageState.TIMEOUT)
        if failed and not ended.output and not ended.message.content:
            await self._service.store.delete_response(owner.user_id, stored.message.id)
            raise stored_failure(ended)
        return ended

    async def _wait_while_connected(
        self,
        request: Request,
        owner: ResponseOwner,
        stored: store.StoredResponse,
        work: Coroutine[Any, Any, T],
    ) -> T:
        """Return what `work` gives; the response ends with its client."""
        try:
            return await run_while_connected(request, work)
        except (ClientDisconnectedError, asyncio.CancelledError):
            self._cancel_soon(owner, stored)
            raise

    async def _stream_while_connected(
        self,
        owner: ResponseOwner,
        stored: store.StoredResponse,
        events: AsyncGenerator[bytes, None],
        is_stopping: Callable[[], bool],
    ) -> AsyncGenerator[bytes, None]:
        completed = False
        try:
            async for event in events:
                yield event
            completed = not is_stopping()
        finally:
            if not completed:
                self._cancel_soon(owner, stored)
            await events.aclose()

    def _cancel_soon(self, owner: ResponseOwner, stored: store.StoredResponse) -> None:
        """Cancel in a task of its own, because the caller is being cancelled itself."""
        task = asyncio.create_task(self._answers.cancel_answer(owner.user_id, stored.message.id))
        self._cancelling.add(task)
        task.add_done_callback(self._on_cancel_done)

    def _on_cancel_done(self, task: asyncio.Task[Any]) -> None:
        self._cancelling.discard(task)
        if not task.cancelled() and isinstance(task.exception(), ChatNotFoundError):
            return  # deleted meanwhile
        task.result()


async def _drain_entries(entries: AsyncIterator[TokenLogEntry] | None) -> None:
    if entries is not None:
        async for _ in entries:
            pass


async def _prepend_entry(
    first: TokenLogEntry, rest: AsyncIterator[TokenLogEntry]
) -> AsyncIterator[TokenLogEntry]:
    yield first
    async for entry in rest:
        yield entry
