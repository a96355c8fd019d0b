"""The chat service as the visitor sees it: signed in as the operator, by the key they signed in with."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from radixway.console.gateway_calls import GatewayCalls, SignedOutError
from radixway.console.page import PageVisit


class OperatorAccount:
    """Calls in the name of the operator's account. Its token stays in this process, as the key does."""

    def __init__(self, visit: PageVisit) -> None:
        self._gateway = visit.gateway
        self._session = visit.request.state.signed_in
        self._chats = visit.gateway.with_key(lambda: self._session.chat_token)

    async def get_json(self, path: str, **query: Any) -> Any:
        """Return the decoded answer of a GET of `path`. Raises ConsoleCallError."""
        return await self.send_request("GET", path, query=query)

    async def post_json(self, path: str, body: Any = None) -> Any:
        """Return the decoded answer to `body`, posted to `path`. Raises ConsoleCallError."""
        return await self.send_request("POST", path, body=body)

    async def send_request(self, method: str, path: str, **more: Any) -> Any:
        """Send a request by `method` to `path`; an expired token is replaced. Raises ConsoleCallError."""
        try:
            return await (await self._account_calls()).send_request(method, path, **more)
        except SignedOutError:
            return await (await self._account_calls(anew=True)).send_request(method, path, **more)

    @asynccontextmanager
    async def open_events(self, path: str, after: str | None) -> AsyncIterator[aiohttp.ClientResponse]:
        """Open the events at `path` that follow the event id `after`. Raises ConsoleCallError."""
        await self.get_json("/auth/check")  # the token lasts: a stream is not begun twice
        headers = {} if after is None else {"last-event-id": after}
        async with (await self._account_calls()).stream_answer("GET", path, headers=headers) as answer:
            yield answer

    async def _account_calls(self, *, anew: bool = False) -> GatewayCalls:
        if anew or self._session.chat_token is None:
            tokens = await self._gateway.post_json("/auth/operator")
            self._session.chat_token = str(tokens["access_token"]["access_token"])
        return self._chats
