"""The request to a worker for a response, and the reading of its reply."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from radixway.api.chats.responses.completion_parser import CompletionParser, worker_error
from radixway.api.chats.responses.request_schema import chat_completion_fields
from radixway.api.chats.responses.shapes import answer_from_blocks
from radixway.api.protocols.responses_items import convert_response_items
from radixway.chat.local_completions import (
    PipelineCall,
    is_event_stream,
    make_completion_request,
    read_whole_body,
)
from radixway.chat.records import Message, Role
from radixway.chat.safety import BLOCKED, find_safety_prefix, has_words
from radixway.chat.stored_responses import ResponseItems
from radixway.core.parsers import ReadPart
from radixway.core.pipeline import Request

PartListener = Callable[[ReadPart], Awaitable[None]]


def conversation_messages(
    thread: Sequence[Message], questions: Mapping[str, ResponseItems], answers: Mapping[str, ResponseItems]
) -> list[dict[str, Any]]:
    """Convert `thread` to the messages that a model is shown. `questions`: items, `answers`: blocks, by
    message.
    """
    told: list[dict[str, Any]] = []
    for message in thread:
        if message.id in questions:
            told += question_messages(questions[message.id], find_safety_prefix(message))
        elif message.id in answers:
            told.append(answer_from_blocks(answers[message.id]).to_message())
        elif has_words(message):
            role = "user" if message.role is Role.PROMPTER else "assistant"
            told.append({"role": role, "content": message.content})
    return told


def question_messages(items: ResponseItems, opening: str) -> list[dict[str, Any]]:
    """Convert `items` to messages, with the safety prefix `opening` before the last of them."""
    said = convert_response_items(items)
    if not opening or not said:
        return said
    content = said[-1].get("content") or ""
    if isinstance(content, str):
        return [*said[:-1], said[-1] | {"content": opening + content}]
    return [*said[:-1], said[-1] | {"content": [{"type": "text", "text": opening}, *content]}]


def build_worker_request(
    request_id: str, user_id: str, model: str, asked: Mapping[str, Any], messages: Sequence[dict[str, Any]]
) -> Request:
    """Build the pipeline request for `messages`. `asked`: the fields of the response's request."""
    system = [{"role": "system", "content": asked["instructions"]}] if asked.get("instructions") else []
    body = {
        "model": model,
        "messages": [*system, *messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        **chat_completion_fields(asked),
    }
    return make_completion_request(request_id, user_id, body, surface="responses")


async def send_worker_request(road: PipelineCall, request: Request, tell: PartListener) -> CompletionParser:
    """Send `request` through the pipeline, and pass every part of the answer to `tell` as it comes. Raises
    HttpError.
    """
    hearing = CompletionParser()
    try:
        reply = await road(request)
        if reply.status != 200 or reply.chunks is None or not is_event_stream(reply):
            body = await read_whole_body(reply)
            if reply.status != 200:
                raise worker_error(reply.status, _decode_json(body))
            for part in hearing.parse_chunk(body) if is_event_stream(reply) else hearing.parse_reply(body):
                await tell(part)
            if hearing.finish_reason == BLOCKED["finish_reason"]:
                hearing.usage = hearing.usage or BLOCKED["usage"]
            return hearing
        async for chunk in reply.chunks:
            for part in hearing.parse_chunk(chunk):
                await tell(part)
        return hearing
    finally:
        for chunks in request.open_streams:
            await chunks.aclose()


def _decode_json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
