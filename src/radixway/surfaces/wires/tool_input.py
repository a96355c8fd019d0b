"""A call's arguments as Anthropic's `input`: an object, where models write JSON text that may be none."""

from __future__ import annotations

import json
from typing import Any

import msgspec

_INVALID = "INVALID_JSON"
"""What Anthropic's guide wraps arguments in that are not valid JSON, so that they can be sent back."""


def parse_tool_input(arguments: str) -> dict[str, Any]:
    """The arguments as an object. What is cut off or otherwise none is kept as it is under `INVALID_JSON`."""
    try:  # not json.loads, which lets pass what JSON cannot say: NaN, half of a surrogate pair
        given = msgspec.json.decode(arguments) if arguments.strip() else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {_INVALID: arguments}
    return given if isinstance(given, dict) else {_INVALID: arguments}


def tool_input_text(arguments: str) -> str:
    """The same as JSON text; as the model wrote it, where that is an object."""
    given = parse_tool_input(arguments)
    return arguments if _INVALID not in given and arguments.strip() else json.dumps(given, ensure_ascii=False)


def arguments_from_input(given: dict[str, Any]) -> str:
    """The arguments of a call from its `input`."""
    match given:
        case {"INVALID_JSON": str(arguments)} if len(given) == 1:
            return arguments
    return json.dumps(given, ensure_ascii=False)
