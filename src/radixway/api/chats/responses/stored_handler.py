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

    def __init__(self, room: ResponseService) -> None:
        self._room = room
        self._answers = room.chats.answers
        self._ending: set[asyncio.Task[Any]] = set()

    async def create_response(
        self, request: Request, owner: ResponseOwner, asked: ResponseCreateParams
    ) -> Response:
        """Store and answer `asked`. Raises HttpError, ChatError, ClientDisconnectedError."""
        kept = await self._save_request(owner, asked, request.headers.get("idempotency-key"))
        if kept.background:
            if asked.ask.stream:
                return await self.stream_response(request, kept)
            return JSONResponse(render_response(kept))
        entries = await self._answers.follow_answer(kept.message)
        if not asked.ask.stream:
            await self._wait_while_connected(request, owner, kept, _drain_entries(entries))
            return JSONResponse(render_response(await self._reload_finished(owner, kept)))
        if entries is not None:
            first = await self._wait_while_connected(request, owner, kept, anext(entries, None))
            if first is not None and msgspec.json.decode(first.event)["event_type"] == "error":
                kept = await self._reload_finished(owner, kept)
            entries = None if first is None else _prepend_entry(first, entries)
        ending = partial(is_server_stopping, request.scope)
        events = stream_response_events(self._room, kept, entries, ending=ending)
        return sse_response(self._stream_while_connected(owner, kept, events, ending))

    async def stream_response(
        self, request: Request, kept: store.StoredResponse, after: int = -1
    ) -> Response:
        """Stream the events after number `after`; the client may leave."""
        is_forgotten = kept.message.state.is_final and not await self._answers.has_log(kept.message.id)
        entries = None if is_forgotten else await self._answers.follow_answer(kept.message)
        ending = partial(is_server_stopping, request.scope)
        return sse_response(stream_response_events(self._room, kept, entries, after, ending))

    async def _save_request(
        self, owner: ResponseOwner, asked: ResponseCreateParams, key: str | None
    ) -> store.StoredResponse:
        model = self._room.resolve_model(asked.ask.model)
        previous, conversation = asked.ask.previous_response_id, asked.conversation_id
        try:
            new = NewResponse(
                items_text(asked.items),
                asked.items,
                asked.request,
                self._room.queue_for(model),
                model,
                {"sampling_parameters": {}, "system_prompt": asked.request.get("instructions")},
                background=asked.is_background,
                previous=None if previous is None else internal_id(RESPONSE, previous),
                conversation=None if conversation is None else internal_id(CONVERSATION, conversation),
                waits_s=None if asked.is_background else self._room.chats.config.waits_s,
                idempotency_key=key,
                request_digest=None if key is None else asked.digest_request(),
            )
            return await self._room.kept.create_response(owner.user_id, new, self._room.messages_for(owner))
        except ChatNotFoundError:
            if conversation is not None:
                raise not_found_error("Conversation", conversation, "conversation") from None
            raise previous_not_found_error(previous or "") from None

    async def _reload_finished(
        self, owner: ResponseOwner, kept: store.StoredResponse
    ) -> store.StoredResponse:
        """The response now that it has ended; one that failed before its first word is deleted and raised."""
        ended = await self._room.kept.get_response(kept.message.id)
        if ended is None:
            raise not_found_error("Response", external_id(RESPONSE, kept.message.id), "response_id")
        failed = ended.message.state in (MessageState.ABORTED_BY_WORKER, MessageState.TIMEOUT)
        if failed and not ended.output and not ended.message.content:
            await self._room.kept.delete_response(owner.user_id, kept.message.id)
            raise stored_failure(ended)
        return ended

    async def _wait_while_connected(
        self, request: Request, owner: ResponseOwner, kept: store.StoredResponse, work: Coroutine[Any, Any, T]
    ) -> T:
        """Return what `work` gives; the response ends with its client."""
        try:
            return await run_while_connected(request, work)
        except (ClientDisconnectedError, asyncio.CancelledError):
            self._cancel_soon(owner, kept)
            raise

    async def _stream_while_connected(
        self,
        owner: ResponseOwner,
        kept: store.StoredResponse,
        events: AsyncGenerator[bytes, None],
        ending: Callable[[], bool],
    ) -> AsyncGenerator[bytes, None]:
        whole = False
        try:
            async for event in events:
                yield event
            whole = not ending()
        finally:
            if not whole:
                self._cancel_soon(owner, kept)
            await events.aclose()

    def _cancel_soon(self, owner: ResponseOwner, kept: store.StoredResponse) -> None:
        """Cancel in a task of its own, because the caller is being cancelled itself."""
        task = asyncio.create_task(self._answers.cancel_answer(owner.user_id, kept.message.id))
        self._ending.add(task)
        task.add_done_callback(self._on_cancel_done)

    def _on_cancel_done(self, task: asyncio.Task[Any]) -> None:
        self._ending.discard(task)
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
