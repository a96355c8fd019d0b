"""A tool that a model may be offered, and what is known of when it is wanted."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool."""

    name: str
    definition: msgspec.Raw
    """What requests carry, in the form of chat completions."""
    description: str
    category: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()
    """Queries that want it."""
