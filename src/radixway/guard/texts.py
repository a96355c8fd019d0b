"""What a guard reads of a request: every text in it, who said it, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Speaker = Literal["system", "user", "assistant", "tool", "document"]
"""Whose words they are. `tool`: results of calls; `document`: what was fetched or uploaded."""

Place = tuple[str | int, ...]
"""Keys and indices from the body down to the text: `("messages", 2, "content")`."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One text of a request."""

    text: str
    speaker: Speaker
    place: Place
