"""Chat completions: parsing of bodies, and whole replies."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from radixway.api.protocols.answer import FinishInfo, GeneratedAnswer, ReplyMetadata
from radixway.api.protocols.base import EventWriter, encode
from radixway.api.protocols.chat_events import ChatEventWriter, chat_logprobs, chat_usage
from radixway.api.protocols.request import Message, NormalizedRequest, Tool
from radixway.api.protocols.request_fields import (
    Count,
    SamplingFields,
    build_function_tool,
    field_error,
    parse_tool_choice,
    require_single_answer,
    response_json_schema,
)
from radixway.core.http import HttpError, decode_open_struct


class ChatStreamOptions(msgspec.Struct):
    """`stream_options`."""

    include_usage: bool | None = None


class OpenAIRequestFields(SamplingFields, kw_only=True):
    """Fields that bodies of chat completions and completions share."""

    model: str | None = None
    n: int | None = None
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None
    max_tokens: Count | None = None
    stop: str | list[str] | None = None
    return_token_ids: bool | None = None

    def check_supported(self) -> None:
        """Raises BadBodyError (400) for what has the right type and cannot be had."""
        require_single_answer("n", self.n)
        if self.stream_options is not None and not self.stream:
            raise field_error("stream_options", "is for streams only: give stream: true, or leave it out")

    @property
    def include_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)


class _ChatBody(OpenAIRequestFields, kw_only=True):
    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    functions: list[Any] | None = None
    function_call: Any = None
    max_completion_tokens: Count | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    response_format: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    continue_final_message: bool | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class ChatAdapter:
    """`POST …/v1/chat/completions`."""

    name = "openai.chat"

    def parse_request(self, raw: bytes) -> NormalizedRequest:
        """Parse a `raw` body. The messages are as the client wrote them, without fields that are null.

        Their content is checked when they are rendered. Raises BadBodyError (400).
        """
        body, fields, extra = decode_open_struct(raw, _ChatBody)
        body.check_supported()
        _refuse_unsupported(body)
        tools = [
            _convert_tool(tool, f"tools[{index}]") for index, tool in enumerate(body.tools or ())
        ] or None
        max_tokens = body.max_tokens if body.max_completion_tokens is None else body.max_completion_tokens
        schema = response_json_schema(body.response_format, "response_format", nested="json_schema")
        return NormalizedRequest(
            model=body.model,
            messages=[_convert_message(message, f"messages[{i}]") for i, message in enumerate(body.messages)],
            tools=tools,
            tool_choice=parse_tool_choice(body.tool_choice, tools),
            parallel_tool_calls=body.parallel_tool_calls is not False,
            sampling=body.sampling(max_tokens=max_tokens, stop=body.stop, json_schema=schema),
            stream=bool(body.stream),
            include_usage=body.include_usage,
            top_logprobs=(body.top_logprobs or 0) if body.logprobs else None,
            return_token_ids=bool(body.return_token_ids),
            template_arguments=reasoning_effort_arguments(body.reasoning_effort)
            | (body.chat_template_kwargs or {}),
            continue_final_message=bool(body.continue_final_message),
            body=fields,
            extra=extra,
        )

    def reply_id(self, head: ReplyMetadata) -> str:
        """`chatcmpl-…`"""
        return f"chatcmpl-{head.id}"

    def encode_reply(
        self, ask: NormalizedRequest, head: ReplyMetadata, answer: GeneratedAnswer, ending: FinishInfo
    ) -> bytes:
        """Encode `answer` as a `chat.completion`."""
        choice: dict[str, Any] = {
            "index": 0,
            "message": answer.to_message(),
            "logprobs": None if ask.top_logprobs is None else {"content": chat_logprobs(answer.scores)},
            "finish_reason": answer.finish_reason(ending.reason),
        }
        reply = {
            "id": self.reply_id(head),
            "object": "chat.completion",
            "created": head.created,
            "model": head.model,
            "choices": [choice],
            "usage": chat_usage(ending),
        }
        if ending.stop is not None:
            choice["stop_reason"] = ending.stop
        if ask.return_token_ids:
            choice["token_ids"] = answer.token_ids
            reply["prompt_token_ids"] = list(head.prompt_ids)
        return encode(reply)

    def create_event_writer(self, ask: NormalizedRequest, head: ReplyMetadata) -> EventWriter:
        """Create a writer of `chat.completion.chunk`s and `[DONE]` for `ask`."""
        return ChatEventWriter(ask, head, self.reply_id(head))

    def encode_error_body(self, error: HttpError) -> bytes:
        """Encode `error` as OpenAI's `{"error": {"message", "type", "param", "code"}}`."""
        return error.body()


def reasoning_effort_arguments(effort: str | None) -> dict[str, Any]:
    """Return OpenAI's reasoning `effort` as templates take it: by that name, and `none` as a switch."""
    if effort is None:
        return {}
    return {"enable_thinking": False} if effort == "none" else {"reasoning_effort": effort}


def _convert_message(message: dict[str, Any], place: str) -> Message:
    if not isinstance(message.get("role"), str):
        raise field_error(f"{place}.role", "must be a string")
    return {name: value for name, value in message.items() if value is not None or name == "content"}


def _convert_tool(tool: dict[str, Any], place: str) -> Tool:
    function = tool.get("function")
    if tool.get("type") != "function" or not isinstance(function, dict):
        raise field_error(place, 'must be {"type": "function", "function": {…}}')
    return build_function_tool(function, f"{place}.function", schema_at="parameters")


def _refuse_unsupported(body: _ChatBody) -> None:
    if body.top_logprobs and not body.logprobs:
        raise field_error("top_logprobs", "needs logprobs: true")
    if body.chat_template is not None:
        raise field_error("chat_template", "is not taken from a request", code="unsupported")
    for name in ("functions", "function_call"):
        if getattr(body, name):
            raise field_error(
                name, "is not supported (deprecated: give tools and tool_choice)", code="unsupported"
            )
