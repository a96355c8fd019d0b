"""OpenAI's Responses: what a body asks, and the whole reply."""

from __future__ import annotations

from typing import Any

from radixway.surfaces.wires.answer import Answer, Ending, Head
from radixway.surfaces.wires.ask import Ask
from radixway.surfaces.wires.base import EventWriter, encode
from radixway.surfaces.wires.chat import effort_arguments
from radixway.surfaces.wires.responses_events import ResponsesEvents
from radixway.surfaces.wires.responses_items import messages_of, tools_of
from radixway.surfaces.wires.responses_reply import ResponseObject
from radixway.surfaces.wires.sampling import Count, SamplingFields, json_schema, wrong
from radixway.surfaces.wires.tools import choice_of
from radixway.web import HttpError, read_open


class _Body(SamplingFields, kw_only=True):
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


class ResponsesWire:
    """`POST …/v1/responses`."""

    name = "openai.responses"

    def __init__(self, *, stateful: bool = False) -> None:
        """`stateful`: whoever serves it keeps responses and conversations by themselves."""
        self._unsupported = ("prompt",) if stateful else ("background", "conversation", "prompt")

    def read(self, raw: bytes) -> Ask:
        """What a body asks; `instructions` become the first message. Raises BadBody (400).

        With `previous_response_id` the messages are only what is new; whoever keeps the session knows the
        others, and that earlier `instructions` are not among them.
        """
        body, fields, extra = read_open(raw, _Body)
        for name in self._unsupported:
            if getattr(body, name):
                raise wrong(name, "is not supported", code="unsupported")
        if not body.input and body.previous_response_id is None and not body.conversation:
            raise wrong("input", "is missing or empty", code="missing_field")
        instructions = [{"role": "system", "content": body.instructions}] if body.instructions else []
        tools = tools_of(body.tools)
        text_format = (body.text or {}).get("format")
        if not isinstance(text_format, dict | None):
            raise wrong("text.format", "must be an object")
        effort = (body.reasoning or {}).get("effort")
        if not isinstance(effort, str | None):
            raise wrong("reasoning.effort", "must be a string")
        return Ask(
            model=body.model,
            messages=[*instructions, *messages_of(body.input or [])],
            tools=tools,
            tool_choice=choice_of(body.tool_choice, tools),
            parallel_tool_calls=body.parallel_tool_calls is not False,
            sampling=body.sampling(
                max_tokens=body.max_output_tokens,
                stop=body.stop,
                json_schema=json_schema(text_format, "text.format"),
            ),
            stream=bool(body.stream),
            template_arguments=effort_arguments(effort) | (body.chat_template_kwargs or {}),
            previous_response_id=body.previous_response_id,
            body=fields,
            extra=extra,
        )

    def reply_id(self, head: Head) -> str:
        """`resp_…`, which a later request gives as `previous_response_id`."""
        return f"resp_{head.id}"

    def whole(self, ask: Ask, head: Head, answer: Answer, ending: Ending) -> bytes:
        """A `response`."""
        return encode(ResponseObject(ask, head, self.reply_id(head)).ended(answer, ending))

    def events(self, ask: Ask, head: Head) -> EventWriter:
        """`response.created` … `response.completed`, or `response.incomplete`."""
        return ResponsesEvents(ResponseObject(ask, head, self.reply_id(head)))

    def error(self, error: HttpError) -> bytes:
        """OpenAI's `{"error": {"message", "type", "param", "code"}}`."""
        return error.body()
