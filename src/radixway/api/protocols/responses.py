"""OpenAI's Responses: parsing of bodies, and whole replies."""

from __future__ import annotations

from typing import Any

from radixway.api.protocols.answer import FinishInfo, GeneratedAnswer, ReplyMetadata
from radixway.api.protocols.base import EventWriter, encode
from radixway.api.protocols.chat import reasoning_effort_arguments
from radixway.api.protocols.request import NormalizedRequest
from radixway.api.protocols.request_fields import (
    Count,
    SamplingFields,
    field_error,
    parse_tool_choice,
    response_json_schema,
)
from radixway.api.protocols.responses_items import convert_response_items, convert_response_tools
from radixway.api.protocols.responses_reply import ResponseObject, ResponsesEventWriter
from radixway.core.http import HttpError, decode_open_struct


class _ResponsesBody(SamplingFields, kw_only=True):
    input: str | list[Any] | None = None
    model: str | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    prompt: Any = None
    background: bool | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: Count | None = None
    stop: str | list[str] | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    include: list[str] | None = None
    metadata: dict[str, Any] | None = None
    truncation: str | None = None
    store: bool | None = None
    user: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None


class ResponsesAdapter:
    """`POST …/v1/responses`."""

    name = "openai.responses"

    def __init__(self, *, stateful: bool = False) -> None:
        """`stateful`: whoever serves it keeps responses and conversations by themselves."""
        self._unsupported = ("prompt",) if stateful else ("background", "conversation", "prompt")

    def parse_request(self, raw: bytes) -> NormalizedRequest:
        """Parse a `raw` body; `instructions` become the first message. Raises BadBodyError (400).

        With `previous_response_id` the messages are only what is new; whoever keeps the session knows the
        others, and that earlier `instructions` are not among them.
        """
        body, fields, extra = decode_open_struct(raw, _ResponsesBody)
        for name in self._unsupported:
            if getattr(body, name):
                raise field_error(name, "is not supported", code="unsupported")
        if not body.input and body.previous_response_id is None and not body.conversation:
            raise field_error("input", "is missing or empty", code="missing_field")
        instructions = [{"role": "system", "content": body.instructions}] if body.instructions else []
        tools = convert_response_tools(body.tools)
        text_format = (body.text or {}).get("format")
        if not isinstance(text_format, dict | None):
            raise field_error("text.format", "must be an object")
        effort = (body.reasoning or {}).get("effort")
        if not isinstance(effort, str | None):
            raise field_error("reasoning.effort", "must be a string")
        return NormalizedRequest(
            model=body.model,
            messages=[*instructions, *convert_response_items(body.input or [])],
            tools=tools,
            tool_choice=parse_tool_choice(body.tool_choice, tools),
            parallel_tool_calls=body.parallel_tool_calls is not False,
            sampling=body.sampling(
                max_tokens=body.max_output_tokens,
                stop=body.stop,
                json_schema=response_json_schema(text_format, "text.format"),
            ),
            stream=bool(body.stream),
            template_arguments=reasoning_effort_arguments(effort) | (body.chat_template_kwargs or {}),
            previous_response_id=body.previous_response_id,
            body=fields,
            extra=extra,
        )

    def reply_id(self, head: ReplyMetadata) -> str:
        """`resp_…`, which a later request gives as `previous_response_id`."""
        return f"resp_{head.id}"

    def encode_reply(
        self, ask: NormalizedRequest, head: ReplyMetadata, answer: GeneratedAnswer, ending: FinishInfo
    ) -> bytes:
        """Encode `answer` as a `response`."""
        return encode(ResponseObject(ask, head, self.reply_id(head)).finished(answer, ending))

    def create_event_writer(self, ask: NormalizedRequest, head: ReplyMetadata) -> EventWriter:
        """Create a writer of `response.created` … `response.completed`, or `response.incomplete`, for
        `ask`.
        """
        return ResponsesEventWriter(ResponseObject(ask, head, self.reply_id(head)))

    def encode_error_body(self, error: HttpError) -> bytes:
        """Encode `error` as OpenAI's `{"error": {"message", "type", "param", "code"}}`."""
        return error.body()
