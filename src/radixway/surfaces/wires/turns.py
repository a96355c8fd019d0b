"""An assistant's turn from what a client sends back of it, piece by piece."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from radixway.surfaces.wires.answer import ContentBlock, build_assistant_message
from radixway.surfaces.wires.ask import Message


class AssistantTurn:
    """Gathers the pieces of one assistant's message, in the order of chat completions whatever theirs."""

    def __init__(self) -> None:
        self.reasoning: list[str] = []
        self.content: list[str] = []
        self.calls: list[ContentBlock] = []

    def __bool__(self) -> bool:
        return bool(self.reasoning or self.content or self.calls)

    def add_tool_call(self, call_id: str, name: str, arguments: str) -> None:
        """One more tool call; `arguments` is JSON."""
        self.calls.append(ContentBlock("call", [arguments], call_id, name))

    def to_message(self) -> Message:
        """The message, equal to `Answer.message()` of the answer that came back."""
        return build_assistant_message("".join(self.reasoning), "".join(self.content), self.calls)


def join_text_content(texts: Sequence[str]) -> str | list[dict[str, Any]]:
    """Content of texts: one is a string, several are parts, which the chat template joins in its own way."""
    return texts[0] if len(texts) == 1 else [{"type": "text", "text": text} for text in texts]
