"""Anthropic's Messages: parsing of bodies into the messages and tools of chat completions, whole replies.

user:       text, tool_result, tool_result, text    ─► user, tool, tool, user
assistant:  thinking, text, tool_use, tool_use      ─► one assistant message
"""

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

from msgspec import Meta

from radixway.core.chat_images import find_image_url, make_image_part
from radixway.core.http import HttpError, decode_open_struct
from radixway.core.protocols.answer import (
    AssistantTurn,
    FinishInfo,
    GeneratedAnswer,
    ReplyMetadata,
    join_content,
)
from radixway.core.protocols.anthropic_reply import (
    AnthropicEventWriter,
    arguments_from_input,
    error_object,
    message_object,
)
from radixway.core.protocols.base import EventWriter, encode
from radixway.core.protocols.request import (
    Count,
    Message,
    NormalizedRequest,
    SamplingFields,
    Tool,
    build_function_tool,
    field_error,
    require_string,
    response_json_schema,
    shorten_value,
)
from radixway.core.protocols.request import parse_tool_choice as checked_choice


class CountTokensBody(SamplingFields, kw_only=True):
    """The body of a request for the number of a conversation's tokens."""

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
    mcp_servers: list[Any] | None = None
    container: Any = None
    chat_template_kwargs: dict[str, Any] | None = None


class MessagesBody(CountTokensBody, kw_only=True):
    """The body of a request for a message."""

    max_tokens: Count


class AnthropicAdapter:
    """`POST …/v1/messages`."""

    name = "anthropic.messages"

    def __init__(self, *, takes_images: bool = False) -> None:
        """`takes_images`: models may see some, in questions and in results of tools."""
        self._takes_images = takes_images

    def parse_request(self, raw: bytes) -> NormalizedRequest:
        """Parse a `raw` body; `system` becomes the first message. Raises BadBodyError (400).

        A last message of the assistant is continued. Without `thinking` the model's default applies, and its
        reasoning is returned.
        """
        body, fields, extra = decode_open_struct(raw, MessagesBody)
        return self._normalize_request(body, body.max_tokens, fields, extra)

    def parse_count_request(self, raw: bytes) -> NormalizedRequest:
        """Parse a `raw` body of `…/v1/messages/count_tokens`: the same without `max_tokens`."""
        body, fields, extra = decode_open_struct(raw, CountTokensBody)
        return self._normalize_request(body, None, fields, extra)

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
        self, body: CountTokensBody, max_tokens: int | None, fields: dict[str, Any], extra: dict[str, Any]
    ) -> NormalizedRequest:
        for name in ("mcp_servers", "container"):
            if getattr(body, name):
                raise field_error(name, "is not supported: tools are run by the client", code="unsupported")
        tools = convert_anthropic_tools(body.tools)
        messages = convert_anthropic_messages(body.system, body.messages, takes_images=self._takes_images)
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


def convert_anthropic_messages(
    system: str | Sequence[Any] | None, turns: Sequence[dict[str, Any]], *, takes_images: bool = False
) -> list[Message]:
    """`system` and `messages`. Raises BadBodyError (400) naming the block at fault."""
    messages: list[Message] = []
    if system:
        messages.append(_system_message(system, "system"))
    for index, turn in enumerate(turns):
        content, place = turn.get("content"), f"messages[{index}].content"
        match turn.get("role"):
            case "user":
                blocks = _content_blocks(content, place)
                messages += _user_messages(blocks, place, takes_images=takes_images)
            case "assistant":
                messages.append(_assistant_message(_content_blocks(content, place), place))
            case "system":
                messages.append(_system_message(content, place))
            case role:
                why = f"must be user or assistant, not {shorten_value(role)}"
                raise field_error(f"messages[{index}].role", why)
    return messages


def _system_message(content: Any, place: str) -> Message:
    return {"role": "system", "content": join_content(_block_texts(content, place))}


def convert_anthropic_tools(given: Sequence[Any] | None) -> list[Tool] | None:
    """Convert `given`, tools with `input_schema`. Raises BadBodyError (400) for a server tool."""
    tools = []
    for index, tool in enumerate(given or ()):
        place = f"tools[{index}]"
        if not isinstance(tool, dict):
            raise field_error(place, f"must be an object, not {shorten_value(tool)}")
        if tool.get("type") not in (None, "custom"):
            why = f"{shorten_value(tool['type'])} is not supported: only tools of the client's own"
            raise field_error(f"{place}.type", why, code="unsupported")
        function = {
            "name": tool.get("name"),
            "description": tool.get("description"),
            "parameters": tool.get("input_schema"),
        }
        tools.append(build_function_tool(function, place, schema_at="input_schema"))
    return tools or None


def convert_anthropic_tool_choice(given: dict[str, Any] | None) -> Any:
    """Convert `given` to a `tool_choice` of chat completions; still to be checked against the tools."""
    match given:
        case None:
            return None
        case {"type": "auto" | "none" as choice}:
            return choice
        case {"type": "any"}:
            return "required"
        case {"type": "tool", "name": str(name)}:
            return {"type": "function", "function": {"name": name}}
    raise field_error(
        "tool_choice", 'must be {"type": "auto" | "any" | "none"} or {"type": "tool", "name": …}'
    )


def _user_messages(blocks: Sequence[dict[str, Any]], place: str, *, takes_images: bool) -> Iterator[Message]:
    convert = _text_or_image if takes_images else _block_text
    parts: list[str | dict[str, Any]] = []
    for index, block in enumerate(blocks):
        where = f"{place}[{index}]"
        if block.get("type") != "tool_result":
            parts.append(convert(block, where))
            continue
        if parts:
            yield {"role": "user", "content": join_content(parts)}
            parts = []
        result = _content_blocks(block.get("content") or "", f"{where}.content")
        yield {
            "role": "tool",
            "tool_call_id": require_string(
                block.get("tool_use_id") or block.get("id"), f"{where}.tool_use_id"
            ),
            "content": join_content(
                [convert(each, f"{where}.content[{at}]") for at, each in enumerate(result)] or [""]
            ),
        }
    if parts or not blocks:
        yield {"role": "user", "content": join_content(parts or [""])}


_IMAGE_TYPE = re.compile(r"image/[a-z0-9][a-z0-9.+-]*")


def _text_or_image(block: dict[str, Any], place: str) -> str | dict[str, Any]:
    if block.get("type") != "image":
        return _block_text(block, place)
    match block.get("source"):
        case {"type": "base64", "media_type": str(kind), "data": str(data)}:
            if _IMAGE_TYPE.fullmatch(kind) is None:
                raise field_error(f"{place}.source.media_type", "must be that of an image: image/png, say")
            return make_image_part(f"data:{kind};base64,{data}")
        case {"type": "url", "url": str(url)}:
            part = make_image_part(url)
            if find_image_url(part) is None:
                raise field_error(f"{place}.source.url", "must be an http(s): or data:image/ URL")
            return part
    why = "must be of type base64, with media_type and data, or url"
    raise field_error(f"{place}.source", why, code="unsupported_content")


def _assistant_message(blocks: Sequence[dict[str, Any]], place: str) -> Message:
    turn = AssistantTurn()
    for index, block in enumerate(blocks):
        where = f"{place}[{index}]"
        match block.get("type"):
            case "thinking":
                turn.reasoning.append(require_string(block.get("thinking"), f"{where}.thinking"))
            case "redacted_thinking":
                pass  # another server's
            case "tool_use":
                given = block.get("input")
                if not isinstance(given, dict):
                    raise field_error(f"{where}.input", "must be an object")
                call_id, name = (
                    require_string(block.get(field), f"{where}.{field}") for field in ("id", "name")
                )
                turn.add_tool_call(call_id, name, arguments_from_input(given))
            case _:
                turn.content.append(_block_text(block, where))
    return turn.to_message()


def _content_blocks(content: Any, place: str) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise field_error(place, f"must be a string or a list of blocks, not {shorten_value(content)}")
    for index, block in enumerate(content):
        if not isinstance(block, dict):
            raise field_error(f"{place}[{index}]", f"must be an object, not {shorten_value(block)}")
    return content


def _block_texts(content: Any, place: str) -> list[str]:
    return [
        _block_text(block, f"{place}[{index}]") for index, block in enumerate(_content_blocks(content, place))
    ]


def _block_text(block: dict[str, Any], place: str) -> str:
    if (kind := block.get("type")) != "text":
        why = f"{shorten_value(kind)} is not supported: only text is"
        raise field_error(f"{place}.type", why, code="unsupported_content")
    return require_string(block.get("text"), f"{place}.text")
