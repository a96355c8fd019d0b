"""Anthropic's Messages API, for chat completions; its own surface passes as it is."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from radixway.core.config import HostedWorkerSettings
from radixway.core.http.server_sent_events import EventBuffer
from radixway.core.pipeline import Request
from radixway.core.pipeline.endpoints import COUNT_TOKENS, MESSAGES
from radixway.routing.transports.hosted.base import (
    Delta,
    Headers,
    ProviderCall,
    ProviderRefusal,
    ReplyReader,
    StreamRefusedError,
    decode_answer,
    read_retry_after,
)
from radixway.routing.transports.hosted.chat_body import (
    ChatBody,
    Content,
    FileContent,
    TextContent,
    read_call_id,
    read_content,
    read_system,
    read_tool_calls,
    unknown_role,
    write_arguments,
)
from radixway.routing.transports.hosted.claude import STOP_REASONS, convert_thinking, takes_sampling

_VERSION = b"2023-06-01"
_USUAL_MAX_TOKENS = 4096
"""The API wants a limit; this one where the client sets none."""
_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_OWN_FIELDS = ("service_tier", "context_management", "container", "mcp_servers")
"""Its own fields, passed where a client of chat completions gives them."""
_ANSWER_JSON = "Answer with one JSON object and nothing else."


class AnthropicApi:
    """`POST /v1/messages`."""

    paths = frozenset({MESSAGES.path, COUNT_TOKENS.path})

    def build_call(
        self, request: Request, settings: HostedWorkerSettings, model: str, key: str | None
    ) -> ProviderCall:
        """Return the call for `request`. Raises BadRequest."""
        headers: Headers = [(b"x-api-key", (key or "").encode())]
        if request.endpoint.path in self.paths:
            given = dict(request.headers)
            headers.append((b"anthropic-version", given.get(b"anthropic-version", _VERSION)))
            if (beta := given.get(b"anthropic-beta")) is not None:
                headers.append((b"anthropic-beta", beta))
            request.edit(model=model)
            return ProviderCall(request.path, request.raw, headers)
        headers.append((b"anthropic-version", _VERSION))
        body = {"model": model, **build_messages_body(ChatBody(request), model)}
        if request.stream:
            body["stream"] = True
        return ProviderCall("/v1/messages", msgspec.json.encode(body), headers)

    def create_reader(self) -> ReplyReader:
        """Create a reader of messages."""
        return AnthropicReader()

    def create_event_buffer(self) -> EventBuffer:
        """Create a buffer of server-sent events."""
        return EventBuffer()

    def explain_error(self, status: int, body: bytes, headers: Headers) -> ProviderRefusal:
        """Read `{"type": "error", "error": {"type", "message"}}`."""
        return replace(
            _read_error(decode_answer(body), status),
            retry_after_s=read_retry_after(headers),
            refuses_key=status == 401,
        )


def build_messages_body(chat: ChatBody, model: str) -> dict[str, Any]:
    """Return the body of a message for `chat`, without its `model`. Raises BadRequest."""
    chat.require_single_answer()
    system, messages = convert_messages(chat)
    wants_json, schema = chat.answer_schema()
    if wants_json and schema is None:
        system.append({"type": "text", "text": _ANSWER_JSON})
    max_tokens = chat.max_tokens or _USUAL_MAX_TOKENS
    body: dict[str, Any] = {"messages": messages}
    if system:
        body["system"] = system
    tools = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.schema}
        | ({"strict": True} if tool.strict else {})
        for tool in chat.tools()
    ]
    choice = _convert_choice(chat) if tools else None
    if tools:
        body["tools"] = tools
    if choice is not None:
        body["tool_choice"] = choice
    body |= {name: chat.fields[name] for name in _OWN_FIELDS if chat.fields.get(name) is not None}
    thinking = convert_thinking(chat, model)
    is_forced = choice is not None and choice["type"] in ("any", "tool")
    if "thinking" in chat.fields or not (is_forced or _has_unsigned_call(messages)):
        body |= thinking
    budget = body.get("thinking", {}).get("budget_tokens")
    if budget is not None:
        max_tokens = max(max_tokens, budget + 1024)
    body["max_tokens"] = max_tokens
    if budget is None and takes_sampling(model):  # the API refuses them beside a budget
        temperature = chat.number("temperature")
        sampling = {
            "temperature": None if temperature is None else min(temperature, 1.0),
            "top_p": chat.number("top_p") if temperature is None else None,  # both together are refused
            "top_k": chat.number("top_k"),
        }
        body |= {name: value for name, value in sampling.items() if value is not None}
    if chat.stops:
        body["stop_sequences"] = chat.stops
    if schema is not None:
        form = {"format": {"type": "json_schema", "schema": schema}}
        body["output_config"] = body.get("output_config", {}) | form
    if chat.user is not None:
        body["metadata"] = {"user_id": chat.user}
    return body


def convert_messages(chat: ChatBody) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the blocks of `system`, and the turns: those of one role that follow each other are one."""
    system: list[dict[str, Any]] = []
    turns: list[dict[str, Any]] = []
    for role, place, message in chat.messages():
        match role:
            case "system" | "developer":
                system += [_convert_part(part) for part in read_system(message.get("content"), place)]
                continue
            case "user":
                name, blocks = "user", [_convert_part(p) for p in read_content(message.get("content"), place)]
            case "tool" | "function":
                name, blocks = "user", [_convert_result(message, place)]
            case "assistant":
                name, blocks = "assistant", _convert_answer(message, place)
            case _:
                raise unknown_role(role, place)
        if turns and turns[-1]["role"] == name:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": name, "content": blocks})
    return system, turns


def _convert_part(part: Content) -> dict[str, Any]:
    if isinstance(part, TextContent):
        block: dict[str, Any] = {"type": "text", "text": part.text}
        return block | ({"cache_control": part.cache_control} if part.cache_control else {})
    return _convert_file(part)


def _convert_file(part: FileContent) -> dict[str, Any]:
    kind = "image" if part.is_image else "document"
    if part.url is not None:
        return {"type": kind, "source": {"type": "url", "url": part.url}}
    return {"type": kind, "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}


def _convert_result(message: Mapping[str, Any], place: str) -> dict[str, Any]:
    content = [_convert_part(part) for part in read_content(message.get("content"), place)]
    return {"type": "tool_result", "tool_use_id": read_call_id(message, place), "content": content}


def _convert_answer(message: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
    """Return the blocks of an earlier answer; thoughts only where they are signed, as the API wants them."""
    thoughts = message.get("thinking_blocks")
    blocks = [block for block in thoughts if isinstance(block, dict)] if isinstance(thoughts, list) else []
    for part in read_content(message.get("content"), place):
        blocks.append(_convert_part(part))
    for call in read_tool_calls(message, place):
        blocks.append({"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments})
    return blocks


def _has_unsigned_call(turns: list[dict[str, Any]]) -> bool:
    """Return whether the latest answer calls tools without its signed thought, which forbids thinking."""
    for turn in reversed(turns):
        if turn["role"] == "assistant":
            kinds = [block.get("type") for block in turn["content"]]
            return "tool_use" in kinds and kinds[0] not in ("thinking", "redacted_thinking")
    return False


def _convert_choice(chat: ChatBody) -> dict[str, Any] | None:
    choice: dict[str, Any]
    match chat.tool_choice():
        case None:
            choice = {"type": "auto"}
            if chat.allows_parallel_calls:
                return None
        case "required":
            choice = {"type": "any"}
        case {"name": str(name)}:
            choice = {"type": "tool", "name": name}
        case other:
            choice = {"type": str(other)}
    if not chat.allows_parallel_calls and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = True
    return choice


class AnthropicReader(ReplyReader):
    """Reads a `message`, whole or as its events."""

    def __init__(self) -> None:
        super().__init__()
        self._block: dict[str, Any] = {}
        self._thought: list[str] = []

    def read_reply(self, reply: Mapping[str, Any]) -> Iterator[Delta]:
        """Yield what the message `reply` says."""
        self.model = str(reply["model"])
        for block in reply["content"]:
            match block:
                case {"type": "text", "text": str(text)}:
                    yield {"content": text}
                case {"type": "thinking", "thinking": str(text)}:
                    yield {"reasoning_content": text, "thinking_blocks": [block]}
                case {"type": "redacted_thinking"}:
                    yield {"thinking_blocks": [block]}
                case {"type": "tool_use", "id": str(call_id), "name": str(name), "input": given}:
                    yield self.begin_call(call_id, name, write_arguments(given))
        self._read_stop(reply.get("stop_reason"))
        self._read_usage(reply.get("usage") or {})

    def read_event(self, event: Mapping[str, Any]) -> Iterator[Delta]:
        """Yield what `event` adds."""
        match event:
            case {"type": "message_start", "message": message}:
                self.model = str(message["model"])
                self._read_usage(message.get("usage") or {})
            case {"type": "content_block_start", "content_block": block}:
                yield from self._begin_block(block)
            case {"type": "content_block_delta", "delta": delta}:
                yield from self._read_delta(delta)
            case {"type": "content_block_stop"} if self._block.get("type") == "thinking":
                yield {"thinking_blocks": [self._block | {"thinking": "".join(self._thought)}]}
            case {"type": "message_delta", "delta": delta}:
                self._read_stop(delta.get("stop_reason"))
                self._read_usage(event.get("usage") or {})
            case {"type": "error"}:
                refusal = _read_error(event, 500)
                raise StreamRefusedError(_STATUSES.get(refusal.type, 500), refusal)

    def _begin_block(self, block: dict[str, Any]) -> Iterator[Delta]:
        self._block, self._thought = dict(block), []
        match block:
            case {"type": "text", "text": str(text)} if text:
                yield {"content": text}
            case {"type": "thinking", "thinking": str(text)} if text:
                self._thought.append(text)
                yield {"reasoning_content": text}
            case {"type": "redacted_thinking"}:
                yield {"thinking_blocks": [block]}
            case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
                yield self.begin_call(call_id, name)

    def _read_delta(self, delta: Mapping[str, Any]) -> Iterator[Delta]:
        match delta:
            case {"type": "text_delta", "text": str(text)}:
                yield {"content": text}
            case {"type": "thinking_delta", "thinking": str(text)}:
                self._thought.append(text)
                yield {"reasoning_content": text}
            case {"type": "signature_delta", "signature": str(signature)}:
                self._block["signature"] = signature
            case {"type": "input_json_delta", "partial_json": str(text)} if text:
                if self._block.get("type") == "tool_use":
                    yield self.continue_call(text)

    def _read_stop(self, reason: Any) -> None:
        if reason is not None:
            self.finish_reason = STOP_REASONS.get(str(reason), "stop")

    def _read_usage(self, usage: Mapping[str, Any]) -> None:
        """Take the counts in `usage`; of a stream the last one of each counts."""
        if (read := usage.get("cache_read_input_tokens")) is not None:
            self.cached_tokens = int(read)
        if (written := usage.get("cache_creation_input_tokens")) is not None:
            self.cache_write_tokens = int(written)
        if (count := usage.get("input_tokens")) is not None:
            self.prompt_tokens = int(count) + self.cached_tokens + self.cache_write_tokens
        if (count := usage.get("output_tokens")) is not None:
            self.completion_tokens = int(count)
        match usage.get("output_tokens_details"):
            case {"thinking_tokens": int(count)}:
                self.reasoning_tokens = count


def _read_error(answer: Any, status: int) -> ProviderRefusal:
    match answer:
        case {"error": {"type": str(kind), "message": str(message)}}:
            return ProviderRefusal(message, kind, kind)
    return ProviderRefusal(f"Anthropic answered {status}")
