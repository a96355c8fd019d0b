"""Hooks that write in the transaction that ends an answer, and so see every end that is committed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from radixway.chat.records import Message, MessageState


@dataclass(frozen=True, slots=True)
class EndedAnswer:
    """An answer as its end left it, without its words."""

    id: str
    chat_id: str
    parent_id: str | None
    state: MessageState
    model: str | None
    usage: dict[str, Any] | None
    finish_reason: str | None
    error: str | None
    worker_id: str | None
    created_at: float
    first_token_at: float | None
    work_end_at: float
    characters: int
    """Characters of its text."""

    @classmethod
    def of_message(cls, message: Message) -> EndedAnswer:
        """Return the end of `message`, which has ended."""
        fields = {name: getattr(message, name) for name in cls.__slots__ if name != "characters"}
        return cls(**fields, characters=len(message.content or ""))


CompletionHook = Callable[[AsyncConnection, EndedAnswer], Awaitable[None]]


class CompletionHooks:
    """The hooks that are called at the end of each answer."""

    def __init__(self) -> None:
        self.hooks: list[CompletionHook] = []

    async def run_hooks(self, write: AsyncConnection, message: Message) -> None:
        """Call every hook with `message`, which the transaction on `write` ends."""
        if self.hooks:
            ended = EndedAnswer.of_message(message)
            for hook in self.hooks:
                await hook(write, ended)
