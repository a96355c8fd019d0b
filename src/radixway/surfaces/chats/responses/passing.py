"""`POST /v1/responses` with `store: false`: an answer of which nothing is kept, not even for a moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from radixway import pipeline
from radixway.chat.errors import NotFound
from radixway.chat.ids import new_id
from radixway.chat.records import Message, Role
from radixway.chat.safety.screen import Refused
from radixway.chat.safety.threads import as_shown, without_withheld
from radixway.parsers import ReadPart
from radixway.surfaces.chats.responses import ids
from radixway.surfaces.chats.responses.asking import Asked
from radixway.surfaces.chats.responses.clients import sse, while_there
from radixway.surfaces.chats.responses.errors import no_previous
from radixway.surfaces.chats.responses.hearing import Hearing
from radixway.surfaces.chats.responses.items import words
from radixway.surfaces.chats.responses.owners import Owner
from radixway.surfaces.chats.responses.room import ResponseRoom
from radixway.surfaces.chats.responses.shapes import ending, response_object
from radixway.surfaces.chats.responses.telling import conversation, question, request_of, say
from radixway.surfaces.wires.answer import Answer, Growth
from radixway.surfaces.wires.responses_events import ResponsesEvents
from radixway.surfaces.wires.responses_reply import ResponseObject
from radixway.web import HttpError, ServerStopping, is_ending

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
        if owner.is_person:
            await self._room.chats.messages.admit(owner.user_id)
        to_worker = await self._request(owner, asked)
        made = response_object(
            to_worker.id, to_worker.model or "", time.time(), asked.request, background=False
        )
        heard = self._hear(to_worker, owner)
        if not asked.ask.stream:
            return JSONResponse(await while_there(request, _whole(made, heard)))
        first = await while_there(request, anext(heard))
        if isinstance(first, HttpError):
            raise first
        return sse(_events(made, first, heard, partial(is_ending, request.scope)))

    async def _request(self, owner: Owner, asked: Asked) -> pipeline.Request:
        model = self._room.model_of(asked.ask.model)
        thread = await self._before(owner, asked.ask.previous_response_id)
        said = [message.content or "" for message in thread if message.role is Role.PROMPTER]
        opening = await self._screened([*said, words(asked.items)], model)
        questions, answers = await self._room.kept.items_of([message.id for message in thread])
        before = conversation(as_shown(thread), questions, answers)
        messages = [*before, *question(asked.items, opening)]
        return request_of(new_id(), owner.user_id, model, asked.request, messages)

    async def _before(self, owner: Owner, previous: str | None) -> list[Message]:
        """The thread that it goes on from."""
        if previous is None:
            return []
        try:
            before = await self._room.kept.find(owner.user_id, ids.inner(ids.RESPONSE, previous))
        except NotFound:
            raise no_previous(previous) from None
        thread = await self._room.chats.messages.thread(before.message.id)
        to_be = replace(before.message, id="")  # what is answered now counts for nothing yet
        return list(without_withheld([*thread, to_be])[:-1])

    async def _screened(self, turns: list[str], model: str) -> str:
        """The words that make the last of them safe, if any. Raises HttpError: nobody could judge."""
        screen = self._room.chats.screen
        if screen is None:
            return ""
        try:
            verdict = (await screen.look_at_turns(turns, screen.least_for(model))).verdict
        except Refused as refused:
            raise HttpError(str(refused), status=503, code="not_judged") from None
        return "" if verdict is None else verdict.make_safe("")

    async def _hear(self, to_worker: pipeline.Request, owner: Owner) -> AsyncGenerator[Heard, None]:
        heard: asyncio.Queue[Heard] = asyncio.Queue(_AHEAD)

        async def listen() -> None:
            try:
                whole = await say(self._room.road, to_worker, heard.put)
            except HttpError as error:
                await heard.put(error)
                return
            if owner.is_person:
                used = ending(whole.finish_reason, whole.usage)
                tokens = used.prompt_tokens + used.completion_tokens
                await self._room.chats.messages.charge(owner.user_id, tokens)
            await heard.put(whole)

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
    made: ResponseObject, first: Heard, heard: AsyncGenerator[Heard, None], ending: Callable[[], bool]
) -> AsyncGenerator[bytes, None]:
    writer = ResponsesEvents(made)
    try:
        yield writer.begin()
        yield _event(writer, first)
        async for each in heard:
            yield _event(writer, each)
    except asyncio.CancelledError:
        if not ending():
            raise
        yield writer.fail(ServerStopping())
    finally:
        await heard.aclose()


def _event(writer: ResponsesEvents, heard: Heard) -> bytes:
    match heard:
        case HttpError():
            return writer.fail(heard)
        case Hearing(finish_reason=reason, usage=usage):
            return writer.end(ending(reason, usage))
    return writer.grow(Growth((heard,)))
