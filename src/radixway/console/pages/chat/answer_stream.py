"""An answer under way, heard event by event; a connection that breaks goes on where it was."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from radixway.console.gateway_calls import GatewayUnreachableError
from radixway.console.pages.chat.account import OperatorAccount
from radixway.core.http.server_sent_events import event_data, event_id, read_events

_AGAIN_S = 1.0
"""After how long a gateway that is away is asked again."""


@dataclass(slots=True)
class AnswerProgress:
    """As much of an answer as is known."""

    words: str = ""
    place: tuple[int, int] | None = None
    """In its queue, and how long that is."""
    steps: list[Mapping[str, Any]] = field(default_factory=list)
    """Of plugins."""
    error: str | None = None
    over: bool = False

    def add_event(self, event: Mapping[str, Any]) -> None:
        """One event more."""
        kind = event["event_type"]
        if kind == "token":
            self.place = None
            self.words += event["text"]
        elif kind == "pending":
            self.place = int(event["queue_position"]), int(event["queue_size"])
        elif kind == "plugin_intermediate":
            self.steps.append(event)
        elif kind == "restart":
            self.words, self.steps = "", []
        elif kind == "error":
            self.error, self.over = str(event["error"]), True
        elif kind == "message":
            self.over = True


async def follow_answer(account: OperatorAccount, chat: str, message: str) -> AsyncIterator[AnswerProgress]:
    """Yield the `AnswerProgress` of `message` after every event, to its end.

    The same object each time. Raises SignedOutError, ConsoleCallError.
    """
    heard, after = AnswerProgress(), None
    while not heard.over:
        try:
            path = f"/v1/chats/{chat}/messages/{message}/events"
            async with account.open_events(path, after) as answer:
                if answer.status == 204:  # it ended long ago: the message has it all
                    return
                async for event in read_events(answer.content.iter_any()):
                    if data := event_data(event):
                        heard.add_event(msgspec.json.decode(data))
                        after = event_id(event) or after
                        yield heard
                return
        except GatewayUnreachableError:
            await asyncio.sleep(_AGAIN_S)
