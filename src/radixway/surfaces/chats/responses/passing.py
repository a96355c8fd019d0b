"""`POST /v1/responses` with `store: false`: an answer of which nothing is kept, not even for a moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from radixway import pipeline
from radixway.chat.errors import NotFound
from radixway.chat.ids import new_id
from radixway.parsers import ReadPart
from radixway.surfaces.chats.responses import ids
from radixway.surfaces.chats.responses.asking import Asked
from radixway.surfaces.chats.responses.clients import sse, while_there
from radixway.surfaces.chats.responses.errors import no_previous
from radixway.surfaces.chats.responses.hearing import Hearing
from radixway.surfaces.chats.responses.owners import Owner
from radixway.surfaces.chats.responses.room import ResponseRoom
from radixway.surfaces.chats.responses.shapes import ending, response_object
from radixway.surfaces.chats.responses.telling import conversation, request_of, say
from radixway.surfaces.wires.answer import Answer, Growth
from radixway.surfaces.wires.responses_events import ResponsesEvents
from radixway.surfaces.wires.responses_items import messages_of
from radixway.surfaces.wires.responses_reply import ResponseObject
from radixway.web import HttpError

_AHEAD = 64
"""Parts that a worker may be ahead of its reader."""

Heard = ReadPart | Hearing | HttpError
"""Parts, and at last how the answer ended."""


class Passing:
    """Asks the road, and passes the answer on."""

    def __init__(self, room: ResponseRoom) -> None:
        self._room = room

    async def create(self, request: Request, owner: Owner, asked: Asked) -> Response:
        """Raises HttpError, TooMany, ClientGone."""
        to_worker = await self._request(owner, asked)
        if owner.is_person:
            await self._room.chats.messages.spend(owner.user_id)
        made = response_object(
            to_worker.id, to_worker.model or "", time.time(), asked.request, background=False
        )
        heard = self._hear(to_worker)
        if not asked.ask.stream:
            return JSONResponse(await while_there(request, _whole(made, heard)))
        first = await while_there(request, anext(heard))
        if isinstance(first, HttpError):
            raise first
        return sse(_events(made, first, heard))

    async def _request(self, owner: Owner, asked: Asked) -> pipeline.Request:
        room, previous = self._room, asked.ask.previous_response_id
        messages = messages_of(asked.items)
        if previous is not None:
            try:
                before = await room.kept.find(owner.user_id, ids.inner(ids.RESPONSE, previous))
            except NotFound:
                raise no_previous(previous) from None
            thread = await room.chats.messages.thread(before.message.id)
            questions, answers = await room.kept.items_of([message.id for message in thread])
            messages = conversation(thread, questions, answers) + messages
        model = room.model_of(asked.ask.model)
        return request_of(new_id(), owner.user_id, model, asked.request, messages)

    async def _hear(self, to_worker: pipeline.Request) -> AsyncGenerator[Heard, None]:
        heard: asyncio.Queue[Heard] = asyncio.Queue(_AHEAD)

        async def listen() -> None:
            try:
                ended: Heard = await say(self._room.road, to_worker, heard.put)
            except HttpError as error:
                ended = error
            await heard.put(ended)

        listening = asyncio.create_task(listen())
        try:
            while True:
                getting = asyncio.ensure_future(heard.get())
                await asyncio.wait([getting, listening], return_when=asyncio.FIRST_COMPLETED)
                if not getting.done() and heard.empty():
                    getting.cancel()
                    listening.result()  # a defect of ours
                each = await getting
                yield each
                if isinstance(each, Hearing | HttpError):
                    return
        finally:
            listening.cancel()
            await asyncio.gather(listening, return_exceptions=True)


async def _whole(made: ResponseObject, heard: AsyncGenerator[Heard, None]) -> dict[str, Any]:
    answer = Answer()
    try:
        async for each in heard:
            match each:
                case HttpError():
                    raise each
                case Hearing(finish_reason=reason, usage=usage):
                    return made.ended(answer, ending(reason, usage))
                case _:
                    answer.add(each)
    finally:
        await heard.aclose()
    raise AssertionError("an answer ends with its end")


async def _events(
    made: ResponseObject, first: Heard, heard: AsyncGenerator[Heard, None]
) -> AsyncGenerator[bytes, None]:
    writer = ResponsesEvents(made)
    try:
        yield writer.begin()
        yield _event(writer, first)
        async for each in heard:
            yield _event(writer, each)
    finally:
        await heard.aclose()


def _event(writer: ResponsesEvents, heard: Heard) -> bytes:
    match heard:
        case HttpError():
            return writer.fail(heard)
        case Hearing(finish_reason=reason, usage=usage):
            return writer.end(ending(reason, usage))
    return writer.grow(Growth((heard,)))
