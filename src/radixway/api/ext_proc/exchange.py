"""A request of Envoy's as an exchange, and as ASGI for applications that stand around the handlers."""

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any

from radixway.api.ext_proc.answer import EnvoyAnswer
from radixway.core.http import ClientDisconnectedError, ClientWatch, Message, Scope
from radixway.core.http.exchange import SENT, Headers
from radixway.core.http.request_body import body_too_large_error


class EnvoyExchange:
    """A request that Envoy has shown whole, and the reply that Envoy carries."""

    __slots__ = ("_answer", "_body", "_has_left", "_receiving", "_watch", "scope", "task")

    def __init__(self, scope: Scope, body: bytes, answer: EnvoyAnswer) -> None:
        self.scope = scope
        self.task: asyncio.Task[Any] | None = None
        self._body: bytes | None = body
        self._answer = answer
        self._watch: ClientWatch | None = None
        self._has_left = False
        self._receiving: list[asyncio.Future[Message]] = []
        """What an ASGI application waits for until Envoy leaves."""

    def mark_disconnected(self) -> None:
        """Note that Envoy is gone or has its reply: whoever answers sees that its client left."""
        self._has_left = True
        for waiting in self._receiving:
            if not waiting.done():
                waiting.set_result({"type": "http.disconnect"})
        if self._watch is not None:
            self._watch.on_client_left()

    # HttpExchange

    async def read_body(self, limit: int) -> bytes:
        body, self._body = self._body or b"", None
        if len(body) > limit:
            raise body_too_large_error(limit)
        return body

    def watch_client(self, watch: ClientWatch) -> None:
        self._watch = watch
        if self._has_left:
            watch.on_client_left()

    async def send_complete(self, status: int, headers: Headers, body: bytes) -> None:
        self._answer.send_start(status, headers)
        await self.send_end(body)

    async def send_start(self, status: int, headers: Headers) -> None:
        self._answer.send_start(status, headers)

    def send_chunk(self, chunk: bytes) -> Awaitable[None]:
        self._answer.send_chunk(chunk)
        return SENT

    async def send_end(self, chunk: bytes) -> None:
        self._answer.send_chunk(chunk)
        with suppress(ClientDisconnectedError):
            await self._answer.send_end()

    # ASGI

    def receive(self) -> Awaitable[Message]:
        """Implement ASGI's `receive` without a coroutine, which whoever watches the client would run in a
        task.
        """
        message: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        if self._body is not None:
            body, self._body = self._body, None
            message.set_result({"type": "http.request", "body": body, "more_body": False})
        elif self._has_left:
            message.set_result({"type": "http.disconnect"})
        else:
            self._receiving.append(message)
        return message

    async def send(self, message: Message) -> None:
        """Handle a `message` of an ASGI application. Raises ClientDisconnectedError."""
        if message["type"] == "http.response.start":
            self._answer.send_start(message["status"], list(message["headers"]))
            return
        self._answer.send_chunk(message.get("body", b""))
        if not message.get("more_body", False):
            await self._answer.send_end()
