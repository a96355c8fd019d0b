"""`POST /v1/responses`: a response that is kept, in the foreground or in the background."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from functools import partial
from typing import Any, TypeVar

import msgspec
from fastapi import Request, Response
from fastapi.responses import JSONResponse

from radixway.chat import responses as store
from radixway.chat.errors import NotFound
from radixway.chat.records import MessageState
from radixway.chat.responses import NewResponse
from radixway.chat.tokens import Entry
from radixway.surfaces.chats.responses import ids
from radixway.surfaces.chats.responses.asking import Asked
from radixway.surfaces.chats.responses.clients import sse, while_there
from radixway.surfaces.chats.responses.errors import no_previous, not_found
from radixway.surfaces.chats.responses.items import words
from radixway.surfaces.chats.responses.owners import Owner
from radixway.surfaces.chats.responses.room import ResponseRoom
from radixway.surfaces.chats.responses.shapes import failure_of, whole
from radixway.surfaces.chats.responses.streaming import told, with_silences
from radixway.web import ClientGone, is_ending

T = TypeVar("T")


class Creating:
    """Makes responses that are kept, and tells them."""

    def __init__(self, room: ResponseRoom) -> None:
        self._room = room
        self._answers = room.chats.answers
        self._ending: set[asyncio.Task[Any]] = set()

    async def create(self, request: Request, owner: Owner, asked: Asked) -> Response:
        """Raises HttpError, ChatError, ClientGone."""
        kept = await self._write(owner, asked, request.headers.get("idempotency-key"))
        if kept.background:
            return await self.stream(request, kept) if asked.ask.stream else JSONResponse(whole(kept))
        listening = await self._answers.listen(kept.message)
        if not asked.ask.stream:
            await self._while_there(request, owner, kept, _drain(listening))
            return JSONResponse(whole(await self._ended(owner, kept)))
        first = await self._while_there(request, owner, kept, _first(listening))
        if first is not None and _is_error(first):
            kept = await self._ended(owner, kept)
        entries = None if first is None or listening is None else _again(first, listening)
        ending = partial(is_ending, request.scope)
        return sse(self._until_left(owner, kept, self._events(kept, entries, -1, ending), ending))

    async def stream(self, request: Request, kept: store.Response, after: int = -1) -> Response:
        """Its events after number `after`; whoever listens may leave."""
        is_forgotten = kept.message.state.is_final and not await self._answers.is_heard(kept.message.id)
        entries = None if is_forgotten else await self._answers.listen(kept.message)
        return sse(self._events(kept, entries, after, partial(is_ending, request.scope)))

    def _events(
        self,
        kept: store.Response,
        entries: AsyncIterator[Entry] | None,
        after: int,
        ending: Callable[[], bool],
    ) -> AsyncGenerator[bytes, None]:
        if entries is None:
            return told(self._room.kept, kept, None, after, ending)
        heard = with_silences(entries, self._room.chats.config.ping_s)
        return told(self._room.kept, kept, heard, after, ending)

    async def _write(self, owner: Owner, asked: Asked, key: str | None) -> store.Response:
        model = self._room.model_of(asked.ask.model)
        texts = self._room.chats.messages if owner.is_person else self._room.unmetered
        previous, conversation = asked.ask.previous_response_id, asked.conversation
        try:
            new = NewResponse(
                words(asked.items),
                asked.items,
                asked.request,
                self._room.queue_for(model),
                model,
                {"sampling_parameters": {}, "system_prompt": asked.request.get("instructions")},
                background=asked.background,
                previous=None if previous is None else ids.inner(ids.RESPONSE, previous),
                conversation=None if conversation is None else ids.inner(ids.CONVERSATION, conversation),
                waits_s=None if asked.background else self._room.chats.config.waits_s,
                idempotency_key=key,
                request_digest=None if key is None else asked.digest(),
            )
            return await self._room.kept.create(owner.user_id, new, texts)
        except NotFound:
            if conversation is not None:
                raise not_found("Conversation", conversation, "conversation") from None
            raise no_previous(previous or "") from None

    async def _ended(self, owner: Owner, kept: store.Response) -> store.Response:
        """As it is now that it has ended. Nothing is left of one that came to nothing.

        Raises HttpError: it did, before its first word.
        """
        ended = await self._room.kept.current(kept.message.id)
        if ended is None:
            raise not_found("Response", ids.told(ids.RESPONSE, kept.message.id), "response_id")
        failed = ended.message.state in (MessageState.ABORTED_BY_WORKER, MessageState.TIMEOUT)
        if failed and not ended.output and not ended.message.content:
            await self._room.kept.delete(owner.user_id, kept.message.id)
            raise failure_of(ended)
        return ended

    async def _while_there(
        self, request: Request, owner: Owner, kept: store.Response, work: Coroutine[Any, Any, T]
    ) -> T:
        """What `work` gives; the response ends with its client. Raises ClientGone."""
        try:
            return await while_there(request, work)
        except (ClientGone, asyncio.CancelledError):
            self._cancel_soon(owner, kept)
            raise

    async def _until_left(
        self,
        owner: Owner,
        kept: store.Response,
        events: AsyncGenerator[bytes, None],
        ending: Callable[[], bool],
    ) -> AsyncGenerator[bytes, None]:
        """The events; the response ends with its client."""
        whole = False
        try:
            async for event in events:
                yield event
            whole = not ending()
        finally:
            if not whole:
                self._cancel_soon(owner, kept)
            await events.aclose()

    def _cancel_soon(self, owner: Owner, kept: store.Response) -> None:
        """In a task of its own: whoever calls is being cancelled."""
        task = asyncio.create_task(self._answers.cancel(owner.user_id, kept.message.id))
        self._ending.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._ending.discard(task)
        if not task.cancelled() and isinstance(task.exception(), NotFound):
            return  # deleted meanwhile
        task.result()


async def _drain(entries: AsyncIterator[Entry] | None) -> None:
    if entries is not None:
        async for _ in entries:
            pass


async def _first(entries: AsyncIterator[Entry] | None) -> Entry | None:
    return None if entries is None else await anext(entries, None)


async def _again(first: Entry, rest: AsyncIterator[Entry]) -> AsyncIterator[Entry]:
    yield first
    async for entry in rest:
        yield entry


def _is_error(entry: Entry) -> bool:
    return bool(msgspec.json.decode(entry.event)["event_type"] == "error")
