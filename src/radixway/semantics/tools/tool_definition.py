"""A tool that a model may be offered, and what is known of when it is wanted.

What a request says of tools: whether they are its model's choice, its own list, those called already.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from radixway.semantics.signals.question import filter_objects


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool."""

    name: str
    definition: msgspec.Raw
    """Definition as requests carry it, in the form of chat completions."""
    description: str
    category: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    """Queries that want it."""


def definitions_size_bytes(definitions: Iterable[msgspec.Raw]) -> int:
    """Return how many bytes the definitions have together."""
    return sum(len(memoryview(definition)) for definition in definitions)


_split = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
_ELSEWHERE = msgspec.Raw(b"")
"""Definitions stay with the request, so that a cached index does not keep its body."""


@dataclass(frozen=True, slots=True)
class ClientToolList:
    """A client's tools."""

    raw: tuple[msgspec.Raw, ...]
    tools: tuple[ToolDefinition, ...]
    places: tuple[int, ...]
    """Index of each of `tools` in `raw`; unnamed and duplicate ones stay."""


def may_choose_tools(body: Mapping[str, Any]) -> bool:
    """Return whether the model may choose tools: the body says `auto`, or has a list and says nothing."""
    choice = body.get("tool_choice")
    return choice == "auto" or (choice is None and bool(body.get("tools")))


def read_client_tools(raw: bytes, body: Mapping[str, Any]) -> ClientToolList | None:
    """Return the client's tools; None where `tools` is no list of objects, which the worker will say."""
    given = body.get("tools")
    if not isinstance(given, list) or not all(isinstance(item, dict) for item in given):
        return None
    items = tuple(_items(_split(raw)["tools"]))
    tools: dict[str, tuple[int, ToolDefinition]] = {}
    for place, item in enumerate(given):
        function = item.get("function")
        if not isinstance(function, dict):
            continue
        name, description = function.get("name"), function.get("description")
        if isinstance(name, str) and name and name not in tools:
            text = description if isinstance(description, str) else ""
            tools[name] = (place, ToolDefinition(name, _ELSEWHERE, text))
    return ClientToolList(
        items, tuple(tool for _, tool in tools.values()), tuple(place for place, _ in tools.values())
    )


def called_tools(body: Mapping[str, Any]) -> frozenset[str]:
    """Names of the tools that the conversation has called."""
    return frozenset(_iter_called(body.get("messages")))


def _iter_called(messages: Any) -> Iterator[str]:
    for message in filter_objects(messages):
        calls = [call.get("function") for call in filter_objects(message.get("tool_calls"))]
        for function in filter_objects([*calls, message.get("function_call")]):
            if isinstance(name := function.get("name"), str):
                yield name
