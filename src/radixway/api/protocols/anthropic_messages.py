"""Anthropic's messages and tools in the form of chat completions.

user:       text, tool_result, tool_result, text    ─► user, tool, tool, user
assistant:  thinking, text, tool_use, tool_use      ─► one assistant message
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from radixway.api.protocols.answer import AssistantTurn, join_text_content
from radixway.api.protocols.anthropic_reply import arguments_from_input
from radixway.api.protocols.request import Message, Tool
from radixway.api.protocols.request_fields import (
    build_function_tool,
    field_error,
    require_string,
    shorten_value,
)


def convert_anthropic_messages(
    system: str | Sequence[Any] | None, turns: Sequence[dict[str, Any]]
) -> list[Message]:
    """`system` and `messages`. Raises BadBodyError (400) naming the block at fault."""
    messages: list[Message] = []
    if system:
        messages.append({"role": "system", "content": join_text_content(_block_texts(system, "system"))})
    for index, turn in enumerate(turns):
        place = f"messages[{index}]"
        role, content = turn.get("role"), turn.get("content")
        match role:
            case "user":
                messages += _user_messages(_content_blocks(content, f"{place}.content"), f"{place}.content")
            case "assistant":
                messages.append(
                    _assistant_message(_content_blocks(content, f"{place}.content"), f"{place}.content")
                )
            case "system":
                messages.append(
                    {
                        "role": "system",
                        "content": join_text_content(_block_texts(content, f"{place}.content")),
                    }
                )
            case _:
                raise field_error(f"{place}.role", f"must be user or assistant, not {shorten_value(role)}")
    return messages


def convert_anthropic_tools(given: Sequence[Any] | None) -> list[Tool] | None:
    """Convert `given`, tools with their `input_schema`. Raises BadBodyError (400) for one that the client
    does not run.
    """
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


def _user_messages(blocks: Sequence[dict[str, Any]], place: str) -> Iterator[Message]:
    texts: list[str] = []
    for index, block in enumerate(blocks):
        where = f"{place}[{index}]"
        if block.get("type") != "tool_result":
            texts.append(_block_text(block, where))
            continue
        if texts:
            yield {"role": "user", "content": join_text_content(texts)}
            texts = []
        result = block.get("content")
        yield {
            "role": "tool",
            "tool_call_id": require_string(block.get("tool_use_id"), f"{where}.tool_use_id"),
            "content": "" if not result else join_text_content(_block_texts(result, f"{where}.content")),
        }
    if texts or not blocks:
        yield {"role": "user", "content": join_text_content(texts or [""])}


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
        why = f"{shorten_value(kind)} is not supported here: sessions are of text"
        raise field_error(f"{place}.type", why, code="unsupported_content")
    return require_string(block.get("text"), f"{place}.text")
