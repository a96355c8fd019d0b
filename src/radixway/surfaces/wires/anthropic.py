"""Anthropic's Messages: what a body asks, and the whole reply."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Meta

from radixway.surfaces.wires.answer import Answer, Ending, Head
from radixway.surfaces.wires.anthropic_events import AnthropicEvents
from radixway.surfaces.wires.anthropic_reply import error_of, message_id, whole_message
from radixway.surfaces.wires.anthropic_turns import choice_of, messages_of, tools_of
from radixway.surfaces.wires.ask import Ask
from radixway.surfaces.wires.base import EventWriter, encode
from radixway.surfaces.wires.sampling import Count, SamplingFields, json_schema, wrong
from radixway.surfaces.wires.tools import choice_of as checked_choice
from radixway.web import HttpError, read_open


class _Counted(SamplingFields, kw_only=True):
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


class _Body(_Counted, kw_only=True):
    max_tokens: Count


class AnthropicWire:
    """`POST …/v1/messages`."""

    name = "anthropic.messages"

    def read(self, raw: bytes) -> Ask:
        """What a body asks; `system` becomes the first message. Raises BadBody (400).

        A last message that is the assistant's is gone on with. Without `thinking` the model does what it does
        by default, and what it thinks is told.
        """
        body, fields, extra = read_open(raw, _Body)
        return _ask(body, body.max_tokens, fields, extra)

    def read_to_count(self, raw: bytes) -> Ask:
        """What a body of `…/v1/messages/count_tokens` asks: the same without `max_tokens`."""
        body, fields, extra = read_open(raw, _Counted)
        return _ask(body, None, fields, extra)

    def reply_id(self, head: Head) -> str:
        """`msg_…`"""
        return message_id(head)

    def whole(self, ask: Ask, head: Head, answer: Answer, ending: Ending) -> bytes:
        """A `message`."""
        return encode(whole_message(head, answer, ending))

    def events(self, ask: Ask, head: Head) -> EventWriter:
        """`message_start` … `message_stop`."""
        return AnthropicEvents(head)

    def error(self, error: HttpError) -> bytes:
        """`{"type": "error", "error": {"type", "message"}}`."""
        return encode(error_of(error))


def _ask(body: _Counted, max_tokens: int | None, fields: dict[str, Any], extra: dict[str, Any]) -> Ask:
    tools = tools_of(body.tools)
    messages = messages_of(body.system, body.messages)
    form = (body.output_config or {}).get("format")
    if not isinstance(form, dict | None):
        raise wrong("output_config.format", "must be an object")
    continues = messages[-1]["role"] == "assistant"
    if continues and messages[-1].get("tool_calls"):
        raise wrong("messages", "ends with a tool_use that no tool_result answers")
    one_call = (body.tool_choice or {}).get("disable_parallel_tool_use")
    return Ask(
        model=body.model,
        messages=messages,
        tools=tools,
        tool_choice=checked_choice(choice_of(body.tool_choice), tools),
        parallel_tool_calls=one_call is not True,
        sampling=body.sampling(
            max_tokens=max_tokens,
            stop=body.stop_sequences,
            json_schema=json_schema(form, "output_config.format"),
        ),
        stream=bool(body.stream),
        template_arguments=_thinking(body.thinking) | (body.chat_template_kwargs or {}),
        continue_final_message=continues,
        body=fields,
        extra=extra,
    )


def _thinking(given: dict[str, Any] | None) -> dict[str, Any]:
    match given:
        case {"type": "enabled"}:
            return {"enable_thinking": True}
        case {"type": "disabled"}:
            return {"enable_thinking": False}
    return {}  # absent, or the model's own choice
