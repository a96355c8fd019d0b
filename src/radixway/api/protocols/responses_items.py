"""The items of a Responses request as messages of chat completions.

reasoning, message, function_call, function_call    ─► one assistant message
function_call_output                                ─► a tool message
message of user, system, developer                  ─► itself
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Sequence
from typing import Any

from radixway.api.protocols.answer import AssistantTurn, join_text_content
from radixway.api.protocols.request import Message, Tool
from radixway.api.protocols.request_fields import (
    build_function_tool,
    field_error,
    require_string,
    shorten_value,
)

_TEXT_PARTS = ("input_text", "output_text", "text", "refusal", "summary_text", "reasoning_text")


def convert_response_items(given: str | Sequence[Any], place: str = "input") -> list[Message]:
    """`input` as messages. Raises BadBodyError (400) naming the item at fault, by its `place` in the body."""
    if isinstance(given, str):
        return [{"role": "user", "content": given}]
    return list(_ItemConverter(given, place))


def convert_response_tools(given: Sequence[Any] | None) -> list[Tool] | None:
    """Convert `given`, Responses' flat tools, to those of chat completions. Raises BadBodyError (400)."""
    tools = []
    for index, tool in enumerate(given or ()):
        place = f"tools[{index}]"
        if not isinstance(tool, dict):
            raise field_error(place, f"must be an object, not {shorten_value(tool)}")
        if tool.get("type") != "function":
            why = f"{shorten_value(tool.get('type'))} is not supported: only functions, which the client runs"
            raise field_error(f"{place}.type", why, code="unsupported")
        function = {name: value for name, value in tool.items() if name != "type"}
        tools.append(build_function_tool(function, place, schema_at="parameters"))
    return tools or None


def encode_reasoning(reasoning: str) -> str:
    """`encrypted_content` of a reasoning item, for clients that keep nothing else of it. It is no secret."""
    return base64.b64encode(reasoning.encode()).decode("ascii")


class _ItemConverter:
    """Walks over items; what belongs to one assistant's turn is gathered until something else comes."""

    def __init__(self, items: Sequence[Any], place: str) -> None:
        self._items = items
        self._place = place
        self._turn = AssistantTurn()
        self._before: str | None = None
        """Type of the item before, while a turn is being gathered."""

    def __iter__(self) -> Iterator[Message]:
        for index, item in enumerate(self._items):
            yield from self._convert_item(item, f"{self._place}[{index}]")
        yield from self._end_turn()

    def _convert_item(self, item: Any, place: str) -> Iterator[Message]:
        if not isinstance(item, dict):
            raise field_error(place, f"must be an object, not {shorten_value(item)}")
        kind = item.get("type", "message")
        match kind, item.get("role"):
            case ("message", "assistant") | ("reasoning", _):
                # A reply of ours thinks once, first, and has no two messages side by side.
                if self._before == "message" or (kind == "reasoning" and self._turn):
                    yield from self._end_turn()
                if kind == "reasoning":
                    self._turn.reasoning.append(_reasoning_text(item, place))
                else:
                    self._turn.content.append("".join(_part_texts(item.get("content"), f"{place}.content")))
                self._before = kind
            case "function_call", _:
                names = ("call_id", "name", "arguments")
                self._turn.add_tool_call(
                    *(require_string(item.get(name), f"{place}.{name}") for name in names)
                )
                self._before = kind
            case "function_call_output", _:
                yield from self._end_turn()
                texts = _part_texts(item.get("output"), f"{place}.output")
                call_id = require_string(item.get("call_id"), f"{place}.call_id")
                yield {"role": "tool", "tool_call_id": call_id, "content": join_text_content(texts)}
            case "message", ("user" | "system" | "developer") as role:
                yield from self._end_turn()
                yield {
                    "role": role,
                    "content": join_text_content(_part_texts(item.get("content"), f"{place}.content")),
                }
            case "message", role:
                raise field_error(
                    f"{place}.role",
                    f"must be user, assistant, system or developer, not {shorten_value(role)}",
                )
            case _:
                raise field_error(
                    f"{place}.type", f"{shorten_value(kind)} is not supported", code="unsupported"
                )

    def _end_turn(self) -> Iterator[Message]:
        if self._before is not None:
            yield self._turn.to_message()
        self._turn, self._before = AssistantTurn(), None


def _reasoning_text(item: dict[str, Any], place: str) -> str:
    """What was thought: as text, or as it was sealed. A summary alone is not what the model thought."""
    if item.get("content"):
        return "".join(_part_texts(item["content"], f"{place}.content"))
    try:
        return base64.b64decode(item.get("encrypted_content") or "", validate=True).decode()
    except (binascii.Error, ValueError, TypeError):
        return ""  # another server's


def _part_texts(content: Any, place: str) -> list[str]:
    if isinstance(content, str):
        return [content]
    if not isinstance(content, list):
        raise field_error(place, f"must be a string or a list of parts, not {shorten_value(content)}")
    return [_part_text(part, f"{place}[{index}]") for index, part in enumerate(content)]


def _part_text(part: Any, place: str) -> str:
    if not isinstance(part, dict):
        raise field_error(place, f"must be an object, not {shorten_value(part)}")
    kind = part.get("type")
    if kind not in _TEXT_PARTS:
        raise field_error(
            f"{place}.type",
            f"{shorten_value(kind)} is not supported: sessions are of text",
            code="unsupported_content",
        )
    name = "refusal" if kind == "refusal" else "text"
    return require_string(part.get(name), f"{place}.{name}")
