"""One request to an ASGI application in the same event loop, its answer as it comes, and those in flight."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Self
from urllib.parse import quote, unquote

from radixway.core.http import App, Message, Scope
from radixway.gateway.embedded.messages import RadixwayError


def closed_error() -> RadixwayError:
    """Return the error of calls that come too late, or are unanswered when the gateway closes."""
    return RadixwayError("this Radixway is closed", status=503, code="closed")


class InFlightExchanges:
    """Exchanges between `enter` and `leave`; belongs to the event loop in which it was made."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._exchanges: set[InProcessExchange] = set()
        self._closed = False

    async def start_exchange(self, exchange: InProcessExchange) -> None:
        """Send `exchange`, and wait until its answer begins. Raises what `InProcessExchange` raises."""
        if self._closed:
            raise closed_error()
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("this Radixway was opened in another event loop: open one here, or use `with`")
        self._exchanges.add(exchange)
        try:
            await exchange.__aenter__()
        except BaseException:
            self._exchanges.discard(exchange)
            raise

    async def end_exchange(self, exchange: InProcessExchange) -> None:
        """End `exchange`; what has been read of its answer stays valid."""
        await exchange.aclose()
        self._exchanges.discard(exchange)

    async def close_all(self) -> None:
        """End all exchanges, with an error for their readers, and refuse new ones."""
        self._closed = True
        await asyncio.gather(*(exchange.aclose(closed_error()) for exchange in list(self._exchanges)))
        self._exchanges.clear()


HERE = ("127.0.0.1", 0)
"""The client's address: this machine, which may administer where no key is configured."""


class InProcessExchange:
    """An exchange without a connection. Use it as a context manager: leaving early is a client that leaves.

    The application waits with each part of its answer until the one before it was taken.
    """

    def __init__(
        self,
        app: App,
        method: str,
        path: str,
        headers: Iterable[tuple[str, str]],
        body: bytes,
        *,
        client: tuple[str, int] = HERE,
    ) -> None:
        """`path`: with its query. `headers`: as over HTTP, in ASCII. `client`: who asks, by address."""
        self.status = 0
        self.headers: Mapping[str, str] = {}
        """The answer's, once it has begun; names in lower case."""
        self._raw: list[tuple[bytes, bytes]] = []
        self._app = app
        self._scope = _make_scope(method, path, headers, len(body), client)
        self._body: bytes | None = body
        self._is_complete = False
        self._left = asyncio.Event()
        self._left_error: Exception = RuntimeError("the stream was left, and is not read any more")
        self._messages: deque[Message] = deque()
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._taken.set()
        self._answering: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        """Ask, and wait until the answer begins. Raises what `next_part` raises."""
        if self._answering is not None:
            raise RuntimeError("asked already: each is entered once")
        loop = asyncio.get_running_loop()
        self._answering = loop.create_task(self._run_app(), name=f"radixway {self._scope['path']}")
        self._answering.add_done_callback(lambda _: self._arrived.set())
        try:
            start = await self._next_message()
            if start is None:
                raise RuntimeError("the application ended without an answer")
        except BaseException:
            await self.aclose()
            raise
        self.status, self._raw = start["status"], start["headers"]
        self.headers = dict(self.raw_headers())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def raw_headers(self) -> list[tuple[str, str]]:
        """Return every header of the answer, also those of one name."""
        return [(name.decode("latin-1").lower(), value.decode("latin-1")) for name, value in self._raw]

    async def next_part(self) -> bytes | None:
        """Return the next part of the answer's body; None at its end. Cancelling loses nothing.

        Raises RuntimeError or the error of `aclose` if it was left, and what the application does not catch.
        """
        while not self._is_complete:
            if (message := await self._next_message()) is None:
                raise RuntimeError("the application ended in the middle of its answer")
            self._is_complete = not message.get("more_body", False)
            if message.get("body"):
                body: bytes = message["body"]
                return body
        return None

    async def iter_parts(self) -> AsyncIterator[bytes]:
        """Yield the answer's body as it comes."""
        while (part := await self.next_part()) is not None:
            yield part

    async def read_body(self) -> bytes:
        """Return the answer's whole body."""
        return b"".join([part async for part in self.iter_parts()])

    async def aclose(self, error: Exception | None = None) -> None:
        """Leave, and wait until the application has ended the request. A reader gets `error`."""
        self._left_error = error or self._left_error
        self._left.set()
        self._taken.set()
        if self._answering is not None:
            if not self._answering.done():
                await asyncio.wait([self._answering])
            if not self._answering.cancelled():
                self._answering.exception()  # what fails after the answer concerns no caller

    async def _run_app(self) -> None:
        await self._app(self._scope, self._receive, self._send)

    async def _receive(self) -> Message:
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        await self._taken.wait()
        if self._left.is_set():
            return
        self._taken.clear()
        self._messages.append(message)
        self._arrived.set()

    async def _next_message(self) -> Message | None:
        """Return what the application sends next; None at the end."""
        if self._answering is None:
            raise RuntimeError("nothing has been asked yet: read it within `with` or `async with`")
        while self._left.is_set() or not self._messages:
            if self._left.is_set():
                raise self._left_error
            if self._answering.done():
                self._answering.result()
                return None
            self._arrived.clear()
            await self._arrived.wait()
        self._taken.set()
        return self._messages.popleft()


def _make_scope(
    method: str, path: str, headers: Iterable[tuple[str, str]], size: int, client: tuple[str, int]
) -> Scope:
    plain, _, query = path.partition("?")
    raw = [(name.lower().encode("ascii"), value.encode("latin-1")) for name, value in headers]
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(plain),
        "raw_path": quote(unquote(plain), safe="/:@!$&'()*+,;=~").encode("ascii"),
        "query_string": query.encode("ascii"),
        "root_path": "",
        "headers": [*raw, (b"content-length", b"%d" % size)],
        "client": client,
        "server": ("radixway", None),
    }
