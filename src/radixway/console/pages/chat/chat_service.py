"""The chat service as the visitor sees it: signed in as the operator, by the key they signed in with."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Unpack

import aiohttp
import msgspec

from radixway.console.gateway_calls import (
    TIMEOUT_S,
    CallOptions,
    GatewayCalls,
    GatewayUnreachableError,
    SignedOutError,
)
from radixway.console.page import PageVisit
from radixway.console.sign_in import SignInSession
from radixway.core.http.server_sent_events import event_data, event_id, read_events

_RETRY_S = 1.0
"""Pause before a gateway that did not answer is called again."""


class OperatorAccount(GatewayCalls):
    """Calls in the name of the operator's account. Its token stays in this process, as the key does."""

    def __init__(self, visit: PageVisit) -> None:
        self._session: SignInSession = visit.request.state.signed_in
        super().__init__(visit.gateway.line, lambda: self._session.chat_token)
        self._gateway = visit.gateway

    async def send_request(
        self, method: str, path: str, timeout_s: float = TIMEOUT_S, **options: Unpack[CallOptions]
    ) -> Any:
        """Send a request by `method` to `path`; an expired token is replaced. Raises ConsoleCallError."""
        if self._session.chat_token is None:
            await self._fetch_token()
        try:
            return await super().send_request(method, path, timeout_s, **options)
        except SignedOutError:
            await self._fetch_token()
            return await super().send_request(method, path, timeout_s, **options)

    @asynccontextmanager
    async def open_events(self, path: str, after: str | None) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open the events at `path` that follow the event id `after`. Raises ConsoleCallError."""
        await self.get_json("/auth/check")  # the token lasts: a stream is not begun twice
        headers = {} if after is None else {"last-event-id": after}
        async with self.stream_answer("GET", path, headers=headers) as answer:
            yield answer

    async def _fetch_token(self) -> None:
        tokens = await self._gateway.post_json("/auth/operator")
        self._session.chat_token = str(tokens["access_token"]["access_token"])


@dataclass(slots=True)
class AnswerProgress:
    """The known part of an answer."""

    text: str = ""
    queue_place: tuple[int, int] | None = None
    """Its position in its queue, and how long that is."""
    plugin_steps: list[Mapping[str, Any]] = field(default_factory=list)
    error: str | None = None
    over: bool = False

    def add_event(self, event: Mapping[str, Any]) -> None:
        """Take in `event`, the next of the answer."""
        kind = event["event_type"]
        if kind == "token":
            self.queue_place = None
            self.text += event["text"]
        elif kind == "pending":
            self.queue_place = int(event["queue_position"]), int(event["queue_size"])
        elif kind == "plugin_intermediate":
            self.plugin_steps.append(event)
        elif kind == "restart":
            self.text, self.plugin_steps = "", []
        elif kind == "error":
            self.error, self.over = str(event["error"]), True
        elif kind == "message":
            self.over = True


async def follow_answer(account: OperatorAccount, chat: str, message: str) -> AsyncIterator[AnswerProgress]:
    """Yield the `AnswerProgress` of `message` after every event, to its end.

    The same object each time. Raises SignedOutError, ConsoleCallError.
    """
    progress, after = AnswerProgress(), None
    while not progress.over:
        try:
            path = f"/v1/chats/{chat}/messages/{message}/events"
            async with account.open_events(path, after) as answer:
                if answer.status == 204:  # it ended long ago: the message has it all
                    return
                async for event in read_events(answer.content.iter_any()):
                    if data := event_data(event):
                        progress.add_event(msgspec.json.decode(data))
                        after = event_id(event) or after
                        yield progress
                return
        except GatewayUnreachableError:
            await asyncio.sleep(_RETRY_S)
