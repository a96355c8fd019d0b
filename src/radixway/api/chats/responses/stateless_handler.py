"""`POST /v1/responses` with `store: false`: an answer of which nothing is kept, not even for a moment."""

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from fastapi import Request, Response
from fastapi.responses import JSONResponse

from radixway.api.chats.errors import not_found_error, previous_not_found_error
from radixway.api.chats.responses.completions import (
    build_worker_request,
    conversation_messages,
    question_messages,
    send_worker_request,
)
from radixway.api.chats.responses.event_stream import sse_response
from radixway.api.chats.responses.request_schema import ResponseCreateParams
from radixway.api.chats.responses.service import ResponseOwner, ResponseService
from radixway.api.chats.responses.shapes import (
    CONVERSATION,
    RESPONSE,
    build_response_object,
    internal_id,
    items_text,
)
from radixway.api.client_requests import run_while_connected
from radixway.chat.errors import ChatNotFoundError
from radixway.chat.ids import new_id
from radixway.chat.records import Message, Role
from radixway.chat.safety.safety_screen import QuestionRefusedError
from radixway.chat.safety.shown_threads import drop_withheld, to_shown_thread
from radixway.core import pipeline
from radixway.core.http import HttpError, ServerStoppingError, is_server_stopping
from radixway.core.parsers import ReadPart
from radixway.core.protocols.answer import AnswerDelta, GeneratedAnswer
from radixway.core.protocols.completion_parser import CompletionParser, build_finish_info
from radixway.core.protocols.responses_reply import ResponseObject, ResponsesEventWriter

_MAX_PARTS_AHEAD = 64
"""Parts that a worker may be ahead of its reader."""

CompletionOutcome = ReadPart | CompletionParser | HttpError
"""Parts, and at last how the answer ended."""


class StatelessResponseHandler:
    """Sends requests through the pipeline, and passes the answers on."""

    def __init__(self, service: ResponseService) -> None:
        self._service = service

    async def create_response(
        self, request: Request, owner: ResponseOwner, params: ResponseCreateParams
    ) -> Response:
        """Answer `params`. Raises HttpError, ChatLimitExceededError, ClientDisconnectedError."""
        if owner.is_person:
            await self._service.chats.messages.count_answer(owner.user_id)
        to_worker = await self._build_request(owner, params)
        made = build_response_object(
            to_worker.id,
            to_worker.model or "",
            time.time(),
            params.request,
            background=False,
            conversation=None if params.conversation_id is None else {"id": params.conversation_id},
        )
        outcomes = self._run_request(to_worker, owner)
        if not params.ask.stream:
            return JSONResponse(await run_while_connected(request, _collect_response(made, outcomes)))
        first = await run_while_connected(request, anext(outcomes))
        if isinstance(first, HttpError):
            raise first
        return sse_response(_stream_events(made, first, outcomes, partial(is_server_stopping, request.scope)))

    async def count_tokens(self, owner: ResponseOwner, params: ResponseCreateParams) -> bytes:
        """Return the reply that counts what `params` would send to a worker. Raises HttpError."""
        to_worker = await self._build_request(owner, params)
        try:
            return (await self._service.count_tokens(to_worker)).body
        finally:
            for chunks in to_worker.open_streams:
                await chunks.aclose()

    async def _build_request(self, owner: ResponseOwner, params: ResponseCreateParams) -> pipeline.Request:
        model = self._service.resolve_model(params.ask.model)
        thread = await self._earlier_turns(owner, params)
        turns = [message.content or "" for message in thread if message.role is Role.PROMPTER]
        opening = await self._screen_turns([*turns, items_text(params.items)], model)
        questions, answers = await self._service.store.load_items([message.id for message in thread])
        before = conversation_messages(to_shown_thread(thread), questions, answers)
        messages = [*before, *question_messages(params.items, opening)]
        return build_worker_request(new_id(), owner.user_id, model, params.request, messages)

    async def _earlier_turns(self, owner: ResponseOwner, params: ResponseCreateParams) -> list[Message]:
        """Return what was said in the conversation, or up to the previous response, that `params` names."""
        last = await self._last_turn(owner, params.ask.previous_response_id, params.conversation_id)
        if last is None:
            return []
        thread = await self._service.chats.messages.load_thread(last)
        to_be = replace(thread[-1], id="")  # the pending answer is not stored
        return list(drop_withheld([*thread, to_be])[:-1])

    async def _last_turn(
        self, owner: ResponseOwner, previous: str | None, conversation: str | None
    ) -> str | None:
        store = self._service.store
        try:
            if conversation is not None:
                return await store.find_last_turn(owner.user_id, internal_id(CONVERSATION, conversation))
            if previous is not None:
                found = await store.find_response(owner.user_id, internal_id(RESPONSE, previous))
                return found.message.id
        except ChatNotFoundError:
            if conversation is not None:
                raise not_found_error("Conversation", conversation, "conversation") from None
            raise previous_not_found_error(previous or "") from None
        return None

    async def _screen_turns(self, turns: list[str], model: str) -> str:
        """The words that make the last of `turns` safe, if any."""
        screen = self._service.chats.safety_screen
        if screen is None:
            return ""
        try:
            verdict = (await screen.screen_turns(turns, screen.configured_level(model))).verdict
        except QuestionRefusedError as refused:
            raise HttpError(str(refused), status=503, code="not_judged") from None
        return "" if verdict is None else verdict.rewrite_prompt("")

    async def _run_request(
        self, to_worker: pipeline.Request, owner: ResponseOwner
    ) -> AsyncGenerator[CompletionOutcome, None]:
        outcomes: asyncio.Queue[CompletionOutcome] = asyncio.Queue(_MAX_PARTS_AHEAD)

        async def read_answer() -> None:
            try:
                parser = await send_worker_request(self._service.pipeline, to_worker, outcomes.put)
            except HttpError as error:
                await outcomes.put(error)
                return
            if owner.is_person:
                used = build_finish_info(parser.finish_reason, parser.usage)
                tokens = used.prompt_tokens + used.completion_tokens
                await self._service.chats.messages.charge_tokens(owner.user_id, tokens)
            await outcomes.put(parser)

        reading = asyncio.create_task(read_answer())
        try:
            while True:
                upcoming = asyncio.ensure_future(outcomes.get())
                await asyncio.wait([upcoming, reading], return_when=asyncio.FIRST_COMPLETED)
                if not upcoming.done() and outcomes.empty():
                    upcoming.cancel()
                    reading.result()  # raises an unexpected error
                outcome = await upcoming
                yield outcome
                if isinstance(outcome, CompletionParser | HttpError):
                    return
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


async def _collect_response(
    made: ResponseObject, outcomes: AsyncGenerator[CompletionOutcome, None]
) -> dict[str, Any]:
    answer = GeneratedAnswer()
    try:
        async for outcome in outcomes:
            match outcome:
                case HttpError():
                    raise outcome
                case CompletionParser(finish_reason=reason, usage=usage):
                    answer.place_scores(outcome.scores)
                    return made.finished(answer, build_finish_info(reason, usage))
                case _:
                    answer.add_part(outcome)
    finally:
        await outcomes.aclose()
    raise AssertionError("an answer ends with its end")


async def _stream_events(
    made: ResponseObject,
    first: CompletionOutcome,
    outcomes: AsyncGenerator[CompletionOutcome, None],
    ending: Callable[[], bool],
) -> AsyncGenerator[bytes, None]:
    writer = ResponsesEventWriter(made)
    try:
        yield writer.encode_start()
        yield _encode_outcome(writer, first)
        async for outcome in outcomes:
            yield _encode_outcome(writer, outcome)
    except asyncio.CancelledError:
        if not ending():
            raise
        yield writer.encode_failure(ServerStoppingError())
    finally:
        await outcomes.aclose()


def _encode_outcome(writer: ResponsesEventWriter, outcome: CompletionOutcome) -> bytes:
    match outcome:
        case HttpError():
            return writer.encode_failure(outcome)
        case CompletionParser(finish_reason=reason, usage=usage):
            writer.answer.place_scores(outcome.scores)
            return writer.encode_end(build_finish_info(reason, usage))
    return writer.encode_delta(AnswerDelta((outcome,)))
