"""What a request asks, as text: the part of it that signals are read from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Question:
    """The text of one request. Signals see this and nothing else of it."""

    text: str
    """The last user message; where there is none, all other messages."""
    whole: str = ""
    """All messages, for what depends on how much there is."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """The client's headers that travel on, names in lower case."""


def read_question(body: Mapping[str, Any], headers: tuple[tuple[bytes, bytes], ...] = ()) -> Question:
    """The question of a chat completion (`messages`) or a completion (`prompt`).

    Text parts of a message's content are joined by a space; other parts say nothing here.
    """
    named = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    messages = body.get("messages")
    if not isinstance(messages, list):
        text = _prompt_text(body.get("prompt"))
        return Question(text, text, named)
    said = [(message.get("role"), content_text(message.get("content"))) for message in objects_in(messages)]
    asked = next((text for role, text in reversed(said) if role == "user" and text.strip()), None)
    if asked is None:
        asked = " ".join(text for role, text in said if role != "user" and text)
    return Question(asked, "\n".join(text for _, text in said if text), named)


def content_text(content: Any) -> str:
    """The text of a message's content: a string, or parts of which some are text."""
    if isinstance(content, str):
        return content
    texts = (part.get("text") for part in objects_in(content) if part.get("type") == "text")
    return " ".join(text for text in texts if isinstance(text, str))


def _prompt_text(prompt: Any) -> str:
    if isinstance(prompt, list):
        return " ".join(text for text in prompt if isinstance(text, str))
    return prompt if isinstance(prompt, str) else ""


def objects_in(items: Any) -> Iterator[Mapping[str, Any]]:
    """What of a decoded list are objects; none where it is no list."""
    return (item for item in items if isinstance(item, dict)) if isinstance(items, list) else iter(())
