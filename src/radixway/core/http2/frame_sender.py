"""What a connection sends: frames, joined to one write per turn of the loop; data as windows have room."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

from radixway.core.http2.frames import (
    DEFAULT_WINDOW_BYTES,
    LEAST_FRAME_BYTES,
    MAX_WINDOW_BYTES,
    ErrorCode,
    Http2Error,
)
from radixway.core.http2.peer_limits import MAX_UNREAD_BYTES
from radixway.core.http2.stream import Http2Stream


class FrameSender(asyncio.Protocol):
    """The sending half of a connection."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._window = DEFAULT_WINDOW_BYTES
        self._peer_frame_bytes = LEAST_FRAME_BYTES
        self._waiting: OrderedDict[Http2Stream, None] = OrderedDict()
        """Streams whose data waits for the connection, in their order; others wait for their own window."""
        self._unsent: list[bytes] = []
        self._is_flushing = False
        self._is_receiving = False
        self._is_paused = False
        self._unread_bytes = 0
        """Written since the transport was paused."""

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._unread_bytes = 0
        self._send_waiting()

    # Called by streams.

    def take_window(self, stream: Http2Stream, size: int) -> bool:
        """Take `size` bytes of all windows for one frame of `stream`; return whether they had them."""
        if self._is_paused or size > stream.window or size > self._window or size > self._peer_frame_bytes:
            return False
        stream.window -= size
        self._window -= size
        return True

    def take_part(self, stream: Http2Stream, size: int) -> int:
        """Take as much of `size` bytes as there is room for in one frame of `stream`, and return it."""
        if self._is_paused:
            return 0
        part = max(0, min(size, stream.window, self._window, self._peer_frame_bytes))
        stream.window -= part
        self._window -= part
        return part

    def wait_for_window(self, stream: Http2Stream) -> None:
        """Have `stream` go on once windows have room again."""
        if stream.window > 0:
            self._waiting[stream] = None

    def write(self, frames: bytes) -> None:
        """Send `frames` with all others of this turn of the loop."""
        self._unsent.append(frames)
        if not self._is_receiving:
            self._schedule_flush()

    def _schedule_flush(self) -> None:
        if not self._is_flushing:
            self._is_flushing = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send now what was written in this turn."""
        self._is_flushing = False
        if self._unsent and self._transport is not None:
            frames = self._unsent[0] if len(self._unsent) == 1 else b"".join(self._unsent)
            self._unsent.clear()
            if self._is_paused:
                self._unread_bytes += len(frames)
                if self._unread_bytes > MAX_UNREAD_BYTES:
                    self._transport.abort()
                    return
            self._transport.write(frames)

    def _grant_connection(self, grant: int) -> None:
        """Let all streams together send `grant` bytes more. Raises Http2Error."""
        self._window += grant
        if self._window > MAX_WINDOW_BYTES:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {self._window} bytes")
        self._send_waiting()

    def _grant_stream(self, stream: Http2Stream, grant: int) -> None:
        """Let `stream` send `grant` bytes more, or less. Raises Http2Error."""
        stream.window += grant
        if stream.window > MAX_WINDOW_BYTES:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {stream.window} bytes")
        stream.send_pending()

    def _send_waiting(self) -> None:
        """Let streams go on that waited for the connection, each in its turn."""
        while self._waiting and self._window > 0 and not self._is_paused:
            stream, _ = self._waiting.popitem(last=False)
            stream.send_pending()
