"""A response as a chat completion: the request to a worker, and its reply as parts of an answer."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from radixway.api.chats.responses.request_schema import chat_completion_fields
from radixway.api.chats.responses.shapes import answer_from_blocks
from radixway.chat.local_completions import (
    PipelineCall,
    is_event_stream,
    make_completion_request,
    read_whole_body,
)
from radixway.chat.records import Message, Role
from radixway.chat.safety import BLOCKED, find_safety_prefix, has_words
from radixway.chat.stored_responses import ResponseItems
from radixway.core.parsers import CallDelta, ReadPart, TextPart, ThinkingPart
from radixway.core.pipeline import Request
from radixway.core.protocols.completion_parser import CompletionParser, worker_error
from radixway.core.protocols.responses import convert_response_items

_decode = msgspec.json.Decoder().decode


def encode_part(part: ReadPart) -> bytes:
    """Encode `part` as an event of the token log."""
    match part:
        case ThinkingPart(text):
            return msgspec.json.encode({"event_type": "thought", "text": text})
        case TextPart(text):
            return msgspec.json.encode({"event_type": "token", "text": text})
        case CallDelta():
            call = {"call_id": part.id, "name": part.name, "arguments": part.arguments}
            return msgspec.json.encode({"event_type": "call", "index": part.index, **call})


def decode_part(event: dict[str, Any]) -> ReadPart | None:
    """Decode the part in `event`; None: it is of another kind."""
    match event["event_type"]:
        case "token":
            return TextPart(event["text"])
        case "thought":
            return ThinkingPart(event["text"])
        case "call":
            return CallDelta(event["index"], event["call_id"], event["name"], event["arguments"])
    return None


PartListener = Callable[[ReadPart], Awaitable[None]]


def conversation_messages(
    thread: Sequence[Message], questions: Mapping[str, ResponseItems], answers: Mapping[str, ResponseItems]
) -> list[dict[str, Any]]:
    """Convert `thread` to the model's messages; `questions`: items, `answers`: blocks, by message."""
    messages: list[dict[str, Any]] = []
    for message in thread:
        if message.id in questions:
            messages += question_messages(questions[message.id], find_safety_prefix(message))
        elif message.id in answers:
            messages.append(answer_from_blocks(answers[message.id]).to_message())
        elif has_words(message):
            role = "user" if message.role is Role.PROMPTER else "assistant"
            messages.append({"role": role, "content": message.content})
    return messages


def question_messages(items: ResponseItems, opening: str) -> list[dict[str, Any]]:
    """Convert `items` to messages, with the safety prefix `opening` before the last of them."""
    messages = convert_response_items(items)
    if not opening or not messages:
        return messages
    content = messages[-1].get("content") or ""
    if isinstance(content, str):
        return [*messages[:-1], messages[-1] | {"content": opening + content}]
    return [*messages[:-1], messages[-1] | {"content": [{"type": "text", "text": opening}, *content]}]


def build_worker_request(
    request_id: str, user_id: str, model: str, fields: Mapping[str, Any], messages: Sequence[dict[str, Any]]
) -> Request:
    """Build the pipeline request for `messages`. `fields`: the fields of the response's request."""
    system = [{"role": "system", "content": fields["instructions"]}] if fields.get("instructions") else []
    body = {
        "model": model,
        "messages": [*system, *messages],
        "stream": True,
        "stream_options": {"include_usage": True},
        **chat_completion_fields(fields),
    }
    return make_completion_request(request_id, user_id, body, surface="responses")


def _decode_json(body: bytes) -> Any:
    try:
        return _decode(body)
    except msgspec.DecodeError:
        return None


async def send_worker_request(
    pipeline: PipelineCall, request: Request, on_part: PartListener
) -> CompletionParser:
    """Send `request` down the pipeline; `on_part` gets each part of the answer. Raises HttpError."""
    parser = CompletionParser()
    try:
        reply = await pipeline(request)
        if reply.status != 200 or reply.chunks is None or not is_event_stream(reply):
            body = await read_whole_body(reply)
            if reply.status != 200:
                raise worker_error(reply.status, _decode_json(body))
            for part in parser.parse_chunk(body) if is_event_stream(reply) else parser.parse_reply(body):
                await on_part(part)
            if parser.finish_reason == BLOCKED["finish_reason"]:
                parser.usage = parser.usage or BLOCKED["usage"]
            return parser
        async for chunk in reply.chunks:
            for part in parser.parse_chunk(chunk):
                await on_part(part)
        return parser
    finally:
        for chunks in request.open_streams:
            await chunks.aclose()
