"""`tools` and `tool_choice`, checked, in the form of chat completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from radixway.surfaces.wires.ask import Tool
from radixway.surfaces.wires.sampling import field_error, shorten_value


def build_function_tool(function: dict[str, Any], place: str, *, schema_at: str) -> Tool:
    """A tool of these fields, without those that are null. Raises BadBody (400) naming the one at fault.

    `schema_at`: what the protocol calls the parameters' schema.
    """
    if not isinstance(function.get("name"), str) or not function["name"]:
        raise field_error(f"{place}.name", "must be a string")
    if not isinstance(function.get("description"), str | None):
        raise field_error(f"{place}.description", "must be a string")
    schema = function.get("parameters")
    if not isinstance(schema, dict | None):
        raise field_error(f"{place}.{schema_at}", "must be a JSON schema, which is an object")
    if (schema or {}).get("type", "object") != "object":
        raise field_error(f"{place}.{schema_at}", "must describe an object: arguments have names")
    given = {name: value for name, value in function.items() if value is not None}
    return {"type": "function", "function": given}


def parse_tool_choice(given: Any, tools: Sequence[Tool] | None) -> str | dict[str, Any] | None:
    """`tool_choice` in the form of chat completions, from that or from Responses' flat one.

    Raises BadBody (400): not a choice, or one of a tool that is not there.
    """
    match given:
        case None | "auto":
            return "auto" if tools else None
        case "none":
            return "none"
        case "required" if tools:
            return "required"
        case {"type": "function", "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            if not any(tool["function"]["name"] == name for tool in tools or ()):
                raise field_error(
                    "tool_choice", f"names a function that is not among the tools: {shorten_value(name)}"
                )
            return {"type": "function", "function": {"name": name}}
        case "required":
            raise field_error("tool_choice", "needs tools to choose from")
    raise field_error("tool_choice", "must be auto, none, required or name a function")
