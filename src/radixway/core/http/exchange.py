"""One request and its reply, as a handler of a declared endpoint sees them: over ASGI, or without it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from time import monotonic
from typing import Any, Literal, Protocol

from radixway.core.http.asgi import Receive, Scope, Send
from radixway.core.http.errors import HttpError
from radixway.core.http.request_body import read_body

Headers = list[tuple[bytes, bytes]]


class _Done:
    """An awaitable that is done."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


SENT: Awaitable[None] = _Done()
"""What a `send` returns that has not had to wait; awaiting it takes no turn of the event loop."""


class HttpExchange(Protocol):
    """A request with its reply. What is sent after the client has left is dropped."""

    scope: Scope
    """The head of the request, as ASGI has it."""
    task: asyncio.Task[Any] | None
    """The task that answers, if it is known."""

    async def read_body(self, limit: int) -> bytes:
        """Return the body, at most `limit` bytes. Raises ClientDisconnectedError, BadBodyError (413)."""

    def watch_client(self, watch: ClientWatch) -> None:
        """The body has been read: tell `watch` if the client leaves."""

    async def send_complete(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a whole reply; `headers` tell its length."""

    async def send_start(self, status: int, headers: Headers) -> None:
        """Begin a streamed reply."""

    def send_chunk(self, chunk: bytes) -> Awaitable[None]:
        """Send more of it: `SENT`, or what waits for a slow client."""

    async def send_end(self, chunk: bytes) -> None:
        """End it, with a last `chunk` if that is not empty."""


class ClientWatch:
    """Cancels the current task when its client leaves or its deadline passes, until `stop_watching`.

    The client is watched from `watch` on, or as an exchange tells. After a cancellation `ended_by` tells ours
    from others; the task then calls `uncancel` and goes on to clean up.
    """

    __slots__ = ("_deadlines", "_has_stopped", "_receiving", "_task", "ended_by")

    def __init__(
        self, deadlines: RequestDeadlines | None = None, task: asyncio.Task[Any] | None = None
    ) -> None:
        """`deadlines`: where there is one; it counts from now on. `task`: the current one, if known."""
        self.ended_by: Literal["client", "deadline"] | None = None
        self._has_stopped = False
        self._task = task or asyncio.current_task()
        self._deadlines = deadlines
        self._receiving: asyncio.Future[Any] | None = None
        if deadlines is not None:
            deadlines.add_watch(self)

    def watch(self, receive: Receive) -> None:
        """The body has been read: take over ASGI's `receive`, which next tells that the client left."""
        self._receiving = asyncio.ensure_future(receive())
        self._receiving.add_done_callback(self.on_client_left)

    def on_client_left(self, _: object = None) -> None:
        """The client has left."""
        self.end_request("client")

    def end_request(self, by: Literal["client", "deadline"]) -> None:
        """Cancel the task, unless that was done before, or nothing is watched any more."""
        if self.ended_by is None and self._task is not None and not self._has_stopped:
            self.ended_by = by
            self._task.cancel()

    def uncancel(self) -> None:
        """The cancellation was ours and has been dealt with."""
        if self._task is not None:
            self._task.uncancel()

    def stop_watching(self) -> None:
        """Cancel nothing any more."""
        if self._deadlines is not None:
            self._deadlines.remove_watch(self)
        if self._receiving is not None:
            self._receiving.remove_done_callback(self.on_client_left)
            self._receiving.cancel()
        self._has_stopped = True


class TimedRequest(Protocol):
    """What has a deadline."""

    def end_request(self, by: Literal["client", "deadline"]) -> None:
        """The deadline has passed."""


class RequestDeadlines:
    """Ends the requests that take longer than `timeout_s`.

    All have the same time, so the one that began first ends first, and one timer serves all of them.
    """

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._began: dict[TimedRequest, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def add_watch(self, watch: TimedRequest) -> None:
        """A request begins."""
        if not self._began:
            loop = asyncio.get_running_loop()
            if self._timer is None or loop is not self._loop:
                self._loop = loop
                self._timer = loop.call_later(self.timeout_s, self._end_overdue)
        self._began[watch] = monotonic()

    def remove_watch(self, watch: TimedRequest) -> None:
        """A request has ended. May be called again."""
        self._began.pop(watch, None)

    def _end_overdue(self) -> None:
        self._timer = None
        now = monotonic()
        for watch, began in list(self._began.items()):
            if (left_s := began + self.timeout_s - now) > 0:
                self._timer = asyncio.get_running_loop().call_later(left_s, self._end_overdue)
                return
            del self._began[watch]
            watch.end_request("deadline")


class AsgiExchange:
    """An exchange over ASGI's `receive` and `send`."""

    __slots__ = ("_receive", "_send", "scope", "task")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.task: asyncio.Task[Any] | None = None
        self._receive = receive
        self._send = send

    async def read_body(self, limit: int) -> bytes:
        return await read_body(self.scope, self._receive, limit)

    def watch_client(self, watch: ClientWatch) -> None:
        watch.watch(self._receive)

    async def send_complete(self, status: int, headers: Headers, body: bytes) -> None:
        await self.send_start(status, headers)
        await self.send_end(body)

    async def send_start(self, status: int, headers: Headers) -> None:
        await self._send({"type": "http.response.start", "status": status, "headers": headers})

    def send_chunk(self, chunk: bytes) -> Awaitable[None]:
        return self._send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def send_end(self, chunk: bytes) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": False})


async def send_exchange_error(exchange: HttpExchange, error: HttpError) -> None:
    """Send `error` as the whole reply of `exchange`."""
    body = error.body()
    headers = [*error.headers(), (b"content-length", b"%d" % len(body))]
    await exchange.send_complete(error.status, headers, body)
