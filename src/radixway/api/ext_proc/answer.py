"""One answer of the application, the frames of a worker that Envoy brings, and the replies that Envoy awaits.

    worker   response_headers      response_body …                     end_of_stream
                  │                     │  ▲ what the application made of the frame
    Envoy    ─────┴── waits for us ─────┴──┴─ waits for us ─────────── waits for us ──► client

Envoy takes one reply for each of its frames, in order. What the application sends replaces the current frame,
which is released when the application asks for the next one.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal, NamedTuple

from radixway.api.ext_proc import messages
from radixway.api.ext_proc.messages import Header, split_response_headers
from radixway.core.http import ClientDisconnectedError
from radixway.core.http.exchange import SENT
from radixway.core.pipeline import GatewayError

Write = Callable[[bytes], None]
"""Sends a message to Envoy. Raises ClientDisconnectedError when Envoy is gone."""


_HEADERS_TIMEOUT_S = 0.05
"""Seconds that a stream which is read already waits for its head: Starlette middlewares pass it on a little
later, and one that reads before it answers has none to give.
"""
_LAST_FRAME_TIMEOUT_S = 2.0
"""Seconds that the end of a stream waits for a frame of the worker to travel with."""


class BodyFrame(NamedTuple):
    """A piece of the worker's answer."""

    body: bytes
    ends: bool


def _refuse_message(_: bytes) -> None:
    raise ClientDisconnectedError


class EnvoyAnswer:
    """The application calls `send_…`, the stream `on_upstream_…`, the forwarder the others."""

    __slots__ = (
        "_arrived",
        "_body_mode",
        "_clear_route_cache",
        "_current_frame",
        "_cut",
        "_ending",
        "_frames",
        "_gone",
        "_headers",
        "_is_whole",
        "_pending",
        "_start",
        "_started",
        "_status",
        "_upstream",
        "_upstream_head",
        "_write",
        "handed_over",
        "over",
    )

    def __init__(self, write: Write, *, clear_route_cache: bool) -> None:
        self._write = write
        self._clear_route_cache = clear_route_cache
        self.handed_over = False
        """Envoy forwards the request: there will be a worker's answer."""
        self.over = False
        self._cut = False
        """Replaced by an answer of ours; Envoy no longer reads."""
        self._is_whole = False
        """The forwarder takes head and body of the worker's answer together."""
        self._upstream: asyncio.Future[None] | None = None
        """Done when the forwarder has something to read."""
        self._upstream_head: tuple[list[Header], bool] | None = None
        self._status = 0
        self._headers: list[Header] = []
        self._gone: list[bytes] = []
        self._body_mode: Literal["undecided", "streamed", "buffered", "none"] = "undecided"
        self._frames: deque[BodyFrame] = deque()
        self._arrived: list[asyncio.Future[None]] = []
        """Who waits for the next frame."""
        self._current_frame: BodyFrame | None = None
        self._ending = False
        """The worker's answer is no longer needed."""
        self._start: tuple[int, list[Header]] | None = None
        self._started: asyncio.Event | None = None
        """Set when there is `_start`; only where it is waited for."""
        self._pending: list[bytes] = []
        """What the application has sent since the latest frame was released."""

    # Called for messages from Envoy, and when it leaves.

    def mark_disconnected(self) -> None:
        """Send nothing any more. It also lets go of the stream, which has this answer."""
        self._write = _refuse_message

    def on_upstream_headers(self, headers: list[Header], ends: bool) -> None:
        """Note the `headers` of the worker's reply; `ends`: it has no body."""
        if self._upstream is None or self._upstream_head is not None:
            return
        self._upstream_head = headers, ends
        if self._is_whole and not ends and not self.over:
            self._buffer_body()  # the forwarder has nothing to do before it has come
        else:
            self._wake_forwarder()

    def on_upstream_body(self, frame: BodyFrame) -> None:
        """Note the next `frame` of the worker's reply."""
        if not self.over:
            self._frames.append(frame)
            self._wake_forwarder()
            arrived, self._arrived = self._arrived, []
            for waiter in arrived:
                if not waiter.done():
                    waiter.set_result(None)
        elif not self._cut:
            self._write(messages.continue_response_body(b""))  # the application has ended it before

    def _wake_forwarder(self) -> None:
        if self._upstream is not None and not self._upstream.done():
            self._upstream.set_result(None)

    # Called by the forwarder.

    def forward_request(
        self,
        headers: list[Header],
        gone: list[bytes],
        had: list[Header],
        body: bytes | None,
        *,
        is_stream: bool,
    ) -> None:
        """Let the request go on to its worker: with `headers` in place of `had`, without those in `gone`.

        `body`: where it is another; `is_stream`: the client asked for its answer in pieces.
        """
        self.handed_over = True
        self._is_whole = not is_stream
        self._upstream = asyncio.get_running_loop().create_future()
        if body is not None:
            gone = [*gone, b"content-length"]
        changes = messages.header_mutation(headers, had, removed=gone)
        self._write(messages.continue_request(changes, body, clear_route_cache=self._clear_route_cache))

    async def upstream_head(self) -> tuple[int, list[Header], bool]:
        """Status and headers of the worker's answer, and whether that is all of it."""
        assert self._upstream is not None
        await self._upstream
        assert self._upstream_head is not None
        raw, ends = self._upstream_head
        self._status, self._headers, self._gone = split_response_headers(raw)
        if ends:
            self._body_mode = "none"
        return self._status, list(self._headers), ends

    async def read_whole_body(self, max_bytes: int) -> bytes:
        """The worker's whole answer; its head waits for it. Raises GatewayError (502) beyond `max_bytes`."""
        if self._body_mode == "undecided":
            self._buffer_body()
        body = bytearray()
        while True:
            frame = self._current_frame = await self._next_frame()
            body += frame.body
            if len(body) > max_bytes:
                raise GatewayError(
                    f"the worker's answer has more than {max_bytes} bytes (limits.workers.max_answer_bytes)",
                    status=502,
                    code="worker_failed",
                )
            if frame.ends:
                return bytes(body)
            self._release_frame(b"")  # Envoy streams it although it was asked not to

    def _buffer_body(self) -> None:
        self._body_mode = "buffered"
        self._write(messages.BUFFER_BODY)

    async def next_frame(self) -> BodyFrame:
        """Return the next frame of a streamed answer, and release the one before it."""
        if self._body_mode == "undecided":
            await self._begin_stream()
        if self._current_frame is not None:
            self._release_frame(self._take_pending())
        frame = self._current_frame = await self._next_frame()
        return frame

    async def _next_frame(self) -> BodyFrame:
        while self._ending or not self._frames:
            await self._wait_frame()
        return self._frames.popleft()

    async def _wait_frame(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._arrived.append(waiter)
        await waiter

    # Called by the application.

    def send_start(self, status: int, headers: list[Header]) -> None:
        """Begin the answer."""
        self._start = status, headers
        if self._started is not None:
            self._started.set()

    def send_chunk(self, chunk: bytes) -> None:
        """Send more of the answer."""
        if chunk and not self.over:
            self._pending.append(chunk)

    def send_end(self) -> Awaitable[None]:
        """End the answer. Raises ClientDisconnectedError, as does what it returns."""
        if self.over:
            return SENT
        assert self._start is not None
        self._ending = True
        status, headers = self._start
        if self._body_mode == "streamed":
            return self._finish_stream(status, headers)
        self._finish_answer(status, headers)
        return SENT

    def send_immediate_reply(self, status: int, headers: list[Header], body: bytes) -> None:
        """Send a whole reply in place of whatever there is, unless all has been sent."""
        if not self.over:
            self.over = self._cut = True
            self._write(messages.immediate_response(status, headers, body))

    def _finish_answer(self, status: int, headers: list[Header]) -> None:
        if self._body_mode == "buffered" and self._current_frame is not None and status == self._status:
            self._release_frame(self._take_pending(), self._header_changes(headers))
            self.over = True
        elif self._body_mode == "none" and status == self._status and not self._pending:
            self._write(messages.continue_response_headers(self._header_changes(headers), has_body=False))
            self.over = True
        else:
            self.send_immediate_reply(status, headers, self._take_pending())

    async def _finish_stream(self, status: int, headers: list[Header]) -> None:
        if self._current_frame is None and not await self._has_another_frame():
            # Without a frame to reply to, the stream breaks off.
            self.send_immediate_reply(status, headers, self._take_pending())
            return
        self._release_frame(self._take_pending())
        while self._frames:
            self._frames.popleft()
            self._write(messages.continue_response_body(b""))
        self.over = True

    async def _has_another_frame(self) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LAST_FRAME_TIMEOUT_S):
                while not self._frames:
                    await self._wait_frame()
                self._current_frame = self._frames.popleft()
        return self._current_frame is not None

    async def _begin_stream(self) -> None:
        """Release the head, since Envoy sends no body before that. Headers that a middleware adds only after
        reading the stream are lost."""
        self._body_mode = "streamed"
        if self._start is None:
            self._started = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(_HEADERS_TIMEOUT_S):
                    await self._started.wait()
        status, headers = self._start or (self._status, self._headers)
        changes = self._header_changes(headers, b"content-length")
        if status != self._status:
            changes += messages.header_mutation([(b":status", b"%d" % status)])
        self._write(messages.continue_response_headers(changes, has_body=True))

    def _release_frame(self, body: bytes, changes: messages.Changes | None = None) -> None:
        frame, self._current_frame = self._current_frame, None
        assert frame is not None
        if body == frame.body:
            self._write(messages.continue_response_body(None, changes))
            return
        if changes is not None:
            changes += messages.remove_header(b"content-length")
        self._write(messages.continue_response_body(body, changes))

    def _header_changes(self, headers: list[Header], *gone: bytes) -> messages.Changes:
        present = dict(headers)
        removed = [name for name in dict(self._headers) if name not in present]
        removed += (name for name in self._gone if name not in present)
        return messages.header_mutation(headers, self._headers, removed=[*removed, *gone])

    def _take_pending(self) -> bytes:
        pending, self._pending = self._pending, []
        return pending[0] if len(pending) == 1 else b"".join(pending)
