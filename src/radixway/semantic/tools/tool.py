"""A tool that a model may be offered, and what is known of when it is wanted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """One tool."""

    name: str
    definition: msgspec.Raw
    """What requests carry, in the form of chat completions."""
    description: str
    category: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    """Queries that want it."""


def definitions_size_bytes(definitions: Iterable[msgspec.Raw]) -> int:
    """How many bytes they are together."""
    return sum(len(memoryview(definition)) for definition in definitions)
