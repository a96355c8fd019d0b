"""A response's question on its way to a worker, and the worker's words on their way back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from radixway.chat.completions import Road, completion_request, is_stream, whole_body
from radixway.chat.records import Message, Role
from radixway.chat.responses import Items
from radixway.chat.safety import BLOCKED, has_words, opening_of
from radixway.parsers import ReadPart
from radixway.pipeline import Request
from radixway.surfaces.chats.responses.asking import chat_fields
from radixway.surfaces.chats.responses.hearing import Hearing, told_error
from radixway.surfaces.chats.responses.shapes import answer_of_blocks
from radixway.surfaces.wires.responses_items import messages_of

Tell = Callable[[ReadPart], Awaitable[None]]


def conversation(
    thread: Sequence[Message], questions: Mapping[str, Items], answers: Mapping[str, Items]
) -> list[dict[str, Any]]:
    """A thread as a model is shown it. `questions`: items, `answers`: blocks, by message."""
    told: list[dict[str, Any]] = []
    for message in thread:
        if message.id in questions:
            told += question(questions[message.id], opening_of(message))
        elif message.id in answers:
            told.append(answer_of_blocks(answers[message.id]).message())
        elif has_words(message):
            role = "user" if message.role is Role.PROMPTER else "assistant"
            told.append({"role": role, "content": message.content})
    return told


def question(items: Items, opening: str) -> list[dict[str, Any]]:
    """The messages of items, with words before the last of them that make it safe."""
    said = messages_of(items)
    if not opening or not said:
        return said
    content = said[-1].get("content") or ""
    if isinstance(content, str):
        return [*said[:-1], said[-1] | {"content": opening + content}]
    return [*said[:-1], said[-1] | {"content": [{"type": "text", "text": opening}, *content]}]


def request_of(
    request_id: str, user_id: str, model: str, asked: Mapping[str, Any], messages: Sequence[dict[str, Any]]
) -> Request:
    """For the gateway's road. `asked`: the fields of the response's request."""
    system = [{"role": "system", "content": asked["instructions"]}] if asked.get("instructions") else []
    body = {
        "model": model,
        "messages": [*system, *messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        **chat_fields(asked),
    }
    return completion_request(request_id, user_id, body, surface="responses")


async def say(road: Road, request: Request, tell: Tell) -> Hearing:
    """Send it to a worker, and tell every part of the answer as it comes. Raises HttpError."""
    hearing = Hearing()
    try:
        reply = await road(request)
        if reply.status != 200 or reply.chunks is None or not is_stream(reply):
            body = await whole_body(reply)
            if reply.status != 200:
                raise told_error(reply.status, _json(body))
            for part in hearing.chunk(body) if is_stream(reply) else hearing.whole(body):
                await tell(part)
            if hearing.finish_reason == BLOCKED["finish_reason"]:
                hearing.usage = hearing.usage or BLOCKED["usage"]
            return hearing
        async for chunk in reply.chunks:
            for part in hearing.chunk(chunk):
                await tell(part)
        return hearing
    finally:
        for chunks in request.opened:
            await chunks.aclose()


def _json(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except msgspec.DecodeError:
        return None
