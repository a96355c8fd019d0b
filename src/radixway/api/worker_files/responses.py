"""Responses that workers keep: found again, and gone on from where they are."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Self

import msgspec
from fastapi import APIRouter, Request, Response

from radixway.api.chats.paths import chats_disabled_error
from radixway.api.worker_files.forwarding import forward_to_holder
from radixway.api.worker_files.locations import FileNotFoundAtWorkersError, WorkerFiles
from radixway.core.http import BadBodyError, LazyRouter
from radixway.core.http.server_sent_events import iterate_data
from radixway.core.pipeline import Chunks, Endpoint, Next, Reply, SendChunk, TenantPolicy
from radixway.core.pipeline import Request as PipelineRequest
from radixway.core.pipeline.endpoints import COUNT_RESPONSE_TOKENS, RESPONSES
from radixway.routing import Worker


class _StorageFields(msgspec.Struct):
    """The fields of a request for a response, and of the response, that say what it has to do with kept
    ones."""

    previous_response_id: str | None = None
    store: bool | None = None


class _CreatedEvent(msgspec.Struct):
    """The first event of a streamed response."""

    response: msgspec.Raw = msgspec.Raw(b"{}")


_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_storage = msgspec.json.Decoder(_StorageFields)
_created = msgspec.json.Decoder(_CreatedEvent)


class ResponsePlacement:
    """A `pipeline.Middleware`: what goes on from a response goes to the worker that keeps it."""

    step_name = "Responses"

    def __init__(self, files: WorkerFiles) -> None:
        self._files = files

    def applies_to(self, endpoint: Endpoint) -> bool:
        """Return whether `endpoint` makes responses, or counts their tokens."""
        return endpoint in (RESPONSES, COUNT_RESPONSE_TOKENS)

    async def __call__(self, request: PipelineRequest, call_next: Next) -> Reply:
        """Return the worker's answer. Raises BadBodyError for a previous response that no worker has."""
        try:
            asked = _storage.decode(request.raw)
        except _UNREADABLE:  # its worker says what is wrong
            return await call_next(request)
        tenancy = request.caller.policy
        if (previous := asked.previous_response_id) is not None:
            request.pinned = (await self._find_holder(previous, tenancy)).name
        reply = await call_next(request)
        answered = self._files.find_by_name(reply.worker)
        if answered is None or asked.store is False or not 200 <= reply.status < 300:
            return reply
        if reply.chunks is None:
            await self._note_response(reply.body, answered, tenancy)
        else:
            reply.chunks = NotedChunks(
                reply.chunks, lambda made: self._note_response(made, answered, tenancy)
            )
            request.open_streams.append(reply.chunks)
        return reply

    async def _note_response(self, made: bytes, worker: Worker, tenancy: TenantPolicy | None) -> None:
        """Note whose the response `made` is, unless its `worker` says that it keeps none."""
        with suppress(*_UNREADABLE):
            if _storage.decode(made).store is False:
                return
        await self._files.note_files(RESPONSES.path, made, worker, tenancy)

    async def _find_holder(self, response_id: str, tenancy: TenantPolicy | None) -> Worker:
        try:
            return await self._files.find_worker(RESPONSES.path, response_id, tenancy, "previous_response_id")
        except FileNotFoundAtWorkersError as error:
            raise BadBodyError(
                str(error), param="previous_response_id", code="previous_response_not_found"
            ) from None


class NotedChunks(Chunks):
    """A streamed response as its worker gives it. `note` is told the response of its first event before that
    is passed on, and again at the end: to whoever asked meanwhile, a worker that keeps it only then said 404.
    """

    def __init__(self, chunks: Chunks, note: Callable[[bytes], Awaitable[None]]) -> None:
        self._chunks = chunks
        self._note = note
        self._made: bytes | None = None
        """The response of the first event, once that has come."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            await self._note_made()
            raise
        if self._made is None:
            await self._read_first(chunk)
        return chunk

    async def pass_on(self, send: SendChunk) -> None:
        async def send_first(chunk: bytes) -> None:
            await self._read_first(chunk)
            await send(chunk)

        await self._chunks.pass_on(lambda chunk: send_first(chunk) if self._made is None else send(chunk))
        await self._note_made()

    async def aclose(self) -> None:
        await self._chunks.aclose()

    async def _read_first(self, chunk: bytes) -> None:
        for data in iterate_data(chunk):
            self._made = b""
            with suppress(*_UNREADABLE):
                self._made = bytes(_created.decode(data).response)
            await self._note_made()
            return

    async def _note_made(self) -> None:
        if self._made:
            await self._note(self._made)


def response_routes(files: WorkerFiles, tenancy_of: Callable[[Request], TenantPolicy | None]) -> APIRouter:
    """Build the routes of responses that workers keep, for a gateway that keeps none itself.

    `tenancy_of`: a tenant is shown its own alone.
    """
    router = LazyRouter(tags=["responses"])

    async def forward(response_id: str, request: Request) -> Response:
        """Have the worker that keeps a response show, cancel or delete it."""
        tenancy = tenancy_of(request)
        if not await files.list_workers(RESPONSES.path, tenancy):
            raise chats_disabled_error()
        return await forward_to_holder(files, request, RESPONSES.path, response_id, "response_id", tenancy)

    path = RESPONSES.path + "/{response_id}"
    router.add_api_route(path, forward, methods=["GET"], name="Show a response")
    router.add_api_route(path, forward, methods=["DELETE"], name="Delete a response")
    router.add_api_route(path + "/cancel", forward, methods=["POST"], name="Cancel a response")
    router.add_api_route(path + "/input_items", forward, methods=["GET"], name="List a response's input")
    return router
