"""Anthropic's Messages API, for chat completions; its own surface passes as it is."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from radixway.core.config import HostedWorkerSettings
from radixway.core.pipeline import CHAT_COMPLETIONS, Request
from radixway.core.pipeline.endpoints import COUNT_CHAT_TOKENS, COUNT_TOKENS, MESSAGES
from radixway.routing.transports.hosted.base import (
    Delta,
    Headers,
    ProviderApi,
    ProviderCall,
    ProviderRefusal,
    ReplyReader,
    StreamRefusedError,
    decode_answer,
    read_count,
    read_retry_after,
)
from radixway.routing.transports.hosted.chat_body import (
    ChatBody,
    Content,
    MessageForm,
    TextContent,
    read_call_id,
    read_tool_calls,
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
_COUNTED_FIELDS = ("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config")
_ANSWER_JSON = "Answer with one JSON object and nothing else."


class AnthropicApi(ProviderApi):
    """`POST /v1/messages`, and its count of tokens."""

    passed_paths = frozenset({MESSAGES.path, COUNT_TOKENS.path})
    converted_paths = frozenset({CHAT_COMPLETIONS.path, COUNT_CHAT_TOKENS.path})

    def build_call(
        self, request: Request, settings: HostedWorkerSettings, model: str, key: str | None
    ) -> ProviderCall:
        headers: Headers = [(b"x-api-key", (key or "").encode())]
        if request.endpoint.path in self.passed_paths:
            given = dict(request.headers)
            headers.append((b"anthropic-version", given.get(b"anthropic-version", _VERSION)))
            if (beta := given.get(b"anthropic-beta")) is not None:
                headers.append((b"anthropic-beta", beta))
            request.edit(model=model)
            return ProviderCall(request.path, request.raw, headers)
        headers.append((b"anthropic-version", _VERSION))
        body = {"model": model, **build_messages_body(ChatBody(request), model)}
        if request.endpoint is COUNT_CHAT_TOKENS:
            counted = {name: body[name] for name in _COUNTED_FIELDS if name in body}
            return ProviderCall(
                COUNT_TOKENS.path, msgspec.json.encode(counted), headers, read_answer=_read_tokens
            )
        if request.stream:
            body["stream"] = True
        return ProviderCall(MESSAGES.path, msgspec.json.encode(body), headers)

    def create_reader(self) -> ReplyReader:
        return AnthropicReader()

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
    system, messages = _AnthropicForm().convert_messages(chat)
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


class _AnthropicForm(MessageForm):
    def convert_part(self, part: Content) -> dict[str, Any]:
        if isinstance(part, TextContent):
            block: dict[str, Any] = {"type": "text", "text": part.text}
            return block | ({"cache_control": part.cache_control} if part.cache_control else {})
        source = {"type": "base64", "media_type": part.media_type, "data": part.data}
        if part.url is not None:
            source = {"type": "url", "url": part.url}
        return {"type": "image" if part.is_image else "document", "source": source}

    def convert_result(self, message: Mapping[str, Any], place: str) -> dict[str, Any]:
        content = self.convert_content(message, place)
        return {"type": "tool_result", "tool_use_id": read_call_id(message, place), "content": content}

    def convert_answer(self, message: Mapping[str, Any], place: str) -> list[dict[str, Any]]:
        thoughts = message.get("thinking_blocks")
        thoughts = thoughts if isinstance(thoughts, list) else []
        blocks = [block for block in thoughts if isinstance(block, dict)]
        blocks += self.convert_content(message, place)
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


def _read_tokens(answer: Any, headers: Headers) -> dict[str, Any]:
    return {"input_tokens": int(answer["input_tokens"])}


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
        self.cached_tokens = read_count(usage.get("cache_read_input_tokens"), self.cached_tokens)
        self.cache_write_tokens = read_count(
            usage.get("cache_creation_input_tokens"), self.cache_write_tokens
        )
        if "input_tokens" in usage:
            read = read_count(usage["input_tokens"])
            self.prompt_tokens = read + self.cached_tokens + self.cache_write_tokens
        self.completion_tokens = read_count(usage.get("output_tokens"), self.completion_tokens)
        match usage.get("output_tokens_details"):
            case {"thinking_tokens": count}:
                self.reasoning_tokens = read_count(count)


def _read_error(answer: Any, status: int) -> ProviderRefusal:
    match answer:
        case {"error": {"type": str(kind), "message": str(message)}}:
            return ProviderRefusal(message, kind, kind)
    return ProviderRefusal(f"Anthropic answered {status}")
