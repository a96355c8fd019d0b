"""Anthropic's Messages: parsing of bodies, and whole replies."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from radixway.api.protocols.answer import FinishInfo, GeneratedAnswer, ReplyMetadata
from radixway.api.protocols.anthropic_messages import (
    convert_anthropic_messages,
    convert_anthropic_tool_choice,
    convert_anthropic_tools,
)
from radixway.api.protocols.anthropic_reply import (
    AnthropicEventWriter,
    error_object,
    message_object,
)
from radixway.api.protocols.base import EventWriter, encode
from radixway.api.protocols.request import NormalizedRequest
from radixway.api.protocols.request_fields import Count, SamplingFields, field_error, response_json_schema
from radixway.api.protocols.request_fields import parse_tool_choice as checked_choice
from radixway.core.http import HttpError, decode_open_struct


class _CountTokensBody(SamplingFields, kw_only=True):
    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    model: str | None = None
    system: str | list[Any] | None = None
    tools: list[Any] | None = None
    tool_choice: dict[str, Any] | None = None
    thinking: dict[str, Any] | None = None
    output_config: dict[str, Any] | None = None
    stop_sequences: list[str] | None = None
    stream: bool | None = None
    metadata: dict[str, Any] | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class _MessagesBody(_CountTokensBody, kw_only=True):
    max_tokens: Count


class AnthropicAdapter:
    """`POST …/v1/messages`."""

    name = "anthropic.messages"

    def parse_request(self, raw: bytes) -> NormalizedRequest:
        """Parse a `raw` body; `system` becomes the first message. Raises BadBodyError (400).

        A last message that is the assistant's is gone on with. Without `thinking` the model does what it does
        by default, and what it thinks is told.
        """
        body, fields, extra = decode_open_struct(raw, _MessagesBody)
        return _normalize_request(body, body.max_tokens, fields, extra)

    def parse_count_request(self, raw: bytes) -> NormalizedRequest:
        """Parse a `raw` body of `…/v1/messages/count_tokens`: the same without `max_tokens`."""
        body, fields, extra = decode_open_struct(raw, _CountTokensBody)
        return _normalize_request(body, None, fields, extra)

    def encode_reply(
        self, ask: NormalizedRequest, head: ReplyMetadata, answer: GeneratedAnswer, ending: FinishInfo
    ) -> bytes:
        """Encode `answer` as a `message`."""
        return encode(message_object(head, answer, ending))

    def create_event_writer(self, ask: NormalizedRequest, head: ReplyMetadata) -> EventWriter:
        """Create a writer of `message_start` … `message_stop` for `ask`."""
        return AnthropicEventWriter(head)

    def encode_error_body(self, error: HttpError) -> bytes:
        """Encode `error` as `{"type": "error", "error": {"type", "message"}}`."""
        return encode(error_object(error))


def _normalize_request(
    body: _CountTokensBody, max_tokens: int | None, fields: dict[str, Any], extra: dict[str, Any]
) -> NormalizedRequest:
    tools = convert_anthropic_tools(body.tools)
    messages = convert_anthropic_messages(body.system, body.messages)
    form = (body.output_config or {}).get("format")
    if not isinstance(form, dict | None):
        raise field_error("output_config.format", "must be an object")
    continues = messages[-1]["role"] == "assistant"
    if continues and messages[-1].get("tool_calls"):
        raise field_error("messages", "ends with a tool_use that no tool_result answers")
    one_call = (body.tool_choice or {}).get("disable_parallel_tool_use")
    return NormalizedRequest(
        model=body.model,
        messages=messages,
        tools=tools,
        tool_choice=checked_choice(convert_anthropic_tool_choice(body.tool_choice), tools),
        parallel_tool_calls=one_call is not True,
        sampling=body.sampling(
            max_tokens=max_tokens,
            stop=body.stop_sequences,
            json_schema=response_json_schema(form, "output_config.format"),
        ),
        stream=bool(body.stream),
        template_arguments=_thinking_arguments(body.thinking) | (body.chat_template_kwargs or {}),
        continue_final_message=continues,
        body=fields,
        extra=extra,
    )


def _thinking_arguments(given: dict[str, Any] | None) -> dict[str, Any]:
    match given:
        case {"type": "enabled"}:
            return {"enable_thinking": True}
        case {"type": "disabled"}:
            return {"enable_thinking": False}
    return {}  # absent, or the model's own choice
