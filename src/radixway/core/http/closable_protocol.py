"""How a connection ends: time limits, refusals, and clients that do not read their answers."""

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from radixway.core.http.connections import ConnectionState
from radixway.core.http.direct_exchange import DirectExchange
from radixway.core.http.errors import HttpError
from radixway.core.http.write_batch import write_batch_of

_DRAIN_BYTES = 2**20
_DRAIN_S = 2.0
"""Input that is read and discarded after an answer, and for how long: closing at once would reset the
connection, and some clients would never read the answer.
"""
_FLUSH_S = 10.0
"""Time for a client to read the rest of its answer then."""


class ClosableHttpProtocol(HttpToolsProtocol):
    """A connection that ends in time, and so that its client can read why."""

    def __init__(self, *args: Any, state: ConnectionState, **more: Any) -> None:
        super().__init__(*args, **more)
        self._state = state
        self._batch = write_batch_of(self.loop)
        self._in_head = False
        """A request's head has begun and not ended."""
        self._running: RequestResponseCycle | DirectExchange | None = None
        """The request being answered; later ones are in `pipeline`, and `cycle` is the last of all."""
        self._discards_input = False
        """Further input is discarded, and the connection ends with the present answer."""
        self._thrown_away = 0
        self._unread_bytes = 0
        """Bytes unread when `_reading_timer` started."""
        self._reading_timer: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        """Timer of a head that does not come, and of closing."""

    def close_idle(self) -> None:
        """Close the connection unless a request is in flight, even if an answer is unread."""
        self._discards_input = True
        self._batch.flush()
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def end_keep_alive(self) -> None:
        """Close the connection, idle for `keep_alive_s`, once its last answer has been read."""
        self._batch.flush()
        self.transport.close()
        self._watch_unread()

    def pause_writing(self) -> None:
        """Implement `asyncio.Protocol`: the client reads more slowly than it is answered, or not at all."""
        super().pause_writing()
        self._start_send_timer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._cancel_send_timer()
        if self._running is None:  # what is left of the last answer is not followed by more
            self._watch_unread()

    def _stop_reading_requests(self) -> None:
        """Answer no further requests; the connection ends with the present answer."""
        self._discards_input = True
        self.pipeline.clear()
        if self._running is not None:
            self._running.keep_alive = False
        self.flow.resume_reading()

    def _start_send_timer(self) -> None:
        """Disconnect a client that reads nothing for too long, since a closing transport waits for it."""
        self._cancel_send_timer()
        self._unread_bytes = self.transport.get_write_buffer_size()
        self._reading_timer = self.loop.call_later(self._state.limits.send_timeout_s, self._on_send_timeout)

    def _on_send_timeout(self) -> None:
        self._reading_timer = None
        unread_bytes = self.transport.get_write_buffer_size()
        if 0 < unread_bytes < self._unread_bytes:
            self._start_send_timer()
        elif unread_bytes:
            self._state.counts.slow_readers += 1
            self.transport.abort()

    def _cancel_send_timer(self) -> None:
        if self._reading_timer is not None:
            self._reading_timer.cancel()
            self._reading_timer = None

    def _start_head_timer(self) -> None:
        self._timer = self.loop.call_later(self._state.limits.header_timeout_s, self._on_head_timeout)

    def _on_head_timeout(self) -> None:
        self._timer = None
        if self.transport.is_closing():
            return
        self._state.counts.slow_heads += 1
        if not self._in_head:  # nothing was asked, so there is nothing to answer
            self._close_transport()
            return
        seconds = self._state.limits.header_timeout_s
        self._reply_and_close(
            HttpError(f"the request's head took more than {seconds:g} s", status=408, code="header_timeout")
        )

    def _reply_and_close(self, error: HttpError) -> None:
        """Answer input that never became a request."""
        body = error.body()
        headers = [
            *self.server_state.default_headers,
            *error.headers(),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        lines = b"".join(b"%b: %b\r\n" % header for header in headers)
        answer = b"%b%b\r\n%b" % (STATUS_LINE[error.status], lines, body)
        self._batch.write(self.transport, answer)  # the answer to an earlier request may wait there
        self._close_when_read()

    def _close_when_read(self) -> None:
        """Send EOF and close when the client has read it or had time to."""
        self._discards_input = True
        self._state.forget_connection(self)
        self._cancel_timer()
        self.flow.resume_reading()
        self._batch.flush()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._timer = self.loop.call_later(_DRAIN_S, self._close_transport)

    def _discard_bytes(self, size: int) -> None:
        if self._running is None and not self.transport.is_closing():
            self._thrown_away += size
            if self._thrown_away > _DRAIN_BYTES:
                self._close_transport()

    def _close_transport(self) -> None:
        self._cancel_timer()
        self._batch.flush()
        self.transport.close()
        self._timer = self.loop.call_later(_FLUSH_S, self.transport.abort)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _watch_unread(self) -> None:
        """Cut off a client that never reads the rest of what has been written."""
        if self._reading_timer is None and self.transport.get_write_buffer_size():
            self._start_send_timer()
