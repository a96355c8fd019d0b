"""What a request says of tools: whether they are its model's choice, its own list, those called already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from radixway.semantic.question import objects_in
from radixway.semantic.tools.tool import Tool

_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_ELSEWHERE = msgspec.Raw(b"")
"""Definitions stay with the request: an index that is kept must not keep its body."""


@dataclass(frozen=True, slots=True)
class OwnList:
    """A client's tools."""

    raw: tuple[msgspec.Raw, ...]
    """As they came."""
    tools: tuple[Tool, ...]
    places: tuple[int, ...]
    """Where each of `tools` stands among `raw`; what has no name, or one twice, stays."""


def may_choose(body: Mapping[str, Any]) -> bool:
    """Whether the model is to choose among tools: it says `auto`, or brings a list and says nothing."""
    choice = body.get("tool_choice")
    return choice == "auto" or (choice is None and bool(body.get("tools")))


def own_list(raw: bytes, body: Mapping[str, Any]) -> OwnList | None:
    """The client's tools; None where `tools` is no list of objects, which the worker will say."""
    given = body.get("tools")
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        return None
    items = tuple(_items(_split(raw)["tools"]))
    tools: dict[str, tuple[int, Tool]] = {}
    for place, item in enumerate(given):
        function = item.get("function")
        if not isinstance(function, dict):
            continue
        name, description = function.get("name"), function.get("description")
        if isinstance(name, str) and name and name not in tools:
            told = description if isinstance(description, str) else ""
            tools[name] = (place, Tool(name, _ELSEWHERE, told))
    return OwnList(
        items, tuple(tool for _, tool in tools.values()), tuple(place for place, _ in tools.values())
    )


def called_tools(body: Mapping[str, Any]) -> frozenset[str]:
    """Names of the tools that the conversation has called."""
    return frozenset(_called(body.get("messages")))


def _called(messages: Any) -> Iterator[str]:
    for message in objects_in(messages):
        calls = [call.get("function") for call in objects_in(message.get("tool_calls"))]
        for function in objects_in([*calls, message.get("function_call")]):
            if isinstance(name := function.get("name"), str):
                yield name
