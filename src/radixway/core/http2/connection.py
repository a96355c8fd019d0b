"""One HTTP/2 connection of a client: frames in, streams and their flow control, frames out.

    data_received ─► frames ─► HEADERS opens a stream ─► its handler: on_data, on_end, on_reset
                                                            │
    transport ◄── one write per turn of the loop ◄──────────┴── send_headers, send_data, finish

What is received is granted to the sender again at once, since handlers keep what they need and bound it. What
is sent waits for the windows of the stream and of the connection. A peer that breaks the protocol is told so
by GOAWAY, and the connection ends.
"""

from __future__ import annotations

import asyncio
from typing import cast

from radixway.core.http2.frames import (
    ACK,
    END_HEADERS,
    END_STREAM,
    FRAME_HEAD,
    HAS_PRIORITY,
    HEAD_BYTES,
    MAX_STREAM_ID,
    PADDED,
    ErrorCode,
    FrameKind,
    Http2Error,
    Setting,
    decode_number,
    encode_frame,
    encode_number,
    encode_settings,
    strip_padding,
)
from radixway.core.http2.hpack import HeaderDecoder, HpackError
from radixway.core.http2.stream import ConnectionOwner, Http2Stream

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_LEAST_FRAME_BYTES = 16_384
_MAX_FRAME_BYTES = 65_536
"""Payload of a frame that peers may send."""
_WINDOW_BYTES = 4 * 2**20
"""What a peer may send on a stream, or a connection, before it is granted more."""
_GRANTED_BYTES = _WINDOW_BYTES // 2
"""What is received before it is granted again."""
_DEFAULT_WINDOW_BYTES = 65_535
_MAX_WINDOW_BYTES = 2**31 - 1
_MAX_BLOCK_BYTES = 65_536
_MAX_UNREAD_ACKS = 1_000
"""Answers to control frames that a peer may leave unread."""
_PREFACE_TIMEOUT_S = 20.0
_DATA = int(FrameKind.DATA)
_SETTINGS_ACK = encode_frame(FrameKind.SETTINGS, ACK, 0, b"")


class Http2Connection(asyncio.Protocol):
    """The protocol of one accepted connection, TLS beneath it or not."""

    def __init__(self, owner: ConnectionOwner, *, max_streams: int) -> None:
        """`max_streams`: at a time; more are refused."""
        self._owner = owner
        self._max_streams = max_streams
        self._transport: asyncio.Transport | None = None
        self._loop = asyncio.get_running_loop()
        self._buffer = b""
        self._has_preface = False
        self._decoder = HeaderDecoder(max_list_bytes=_MAX_BLOCK_BYTES)
        self._streams: dict[int, Http2Stream] = {}
        self._last_id = 0
        """The latest stream that the peer opened."""
        self._block: tuple[int, int, bytearray] | None = None
        """Stream, flags and bytes of headers that a CONTINUATION goes on with."""
        self._window = _DEFAULT_WINDOW_BYTES
        self._stream_window = _DEFAULT_WINDOW_BYTES
        self._peer_frame_bytes = _LEAST_FRAME_BYTES
        self._ungranted = 0
        self._waiting: dict[Http2Stream, None] = {}
        """Streams with data that waits for a window, in their order."""
        self._unsent: list[bytes] = []
        self._is_flushing = False
        self._is_receiving = False
        self._is_paused = False
        self._unread_acks = 0
        self._is_draining = False
        self._preface_timer: asyncio.TimerHandle | None = None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._owner.on_connected(self)
        self._preface_timer = self._loop.call_later(_PREFACE_TIMEOUT_S, self._transport.abort)
        settings = {
            Setting.MAX_STREAMS: self._max_streams,
            Setting.WINDOW: _WINDOW_BYTES,
            Setting.MAX_FRAME: _MAX_FRAME_BYTES,
            Setting.MAX_HEADERS: _MAX_BLOCK_BYTES,
        }
        grant = encode_number(_WINDOW_BYTES - _DEFAULT_WINDOW_BYTES)
        self.write(encode_settings(settings) + encode_frame(FrameKind.WINDOW_UPDATE, 0, 0, grant))

    def data_received(self, data: bytes) -> None:
        # What handlers send, and the tasks that they start, goes out after those tasks' first steps.
        self._is_receiving = True
        try:
            self._buffer = self._take_frames(self._buffer + data if self._buffer else data)
        except Http2Error as error:
            self._fail(error.code, str(error))
        except HpackError as error:
            self._fail(ErrorCode.COMPRESSION_ERROR, str(error))
        finally:
            self._is_receiving = False
            if self._unsent:
                self._schedule_flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._preface_timer is not None:
            self._preface_timer.cancel()
        streams, self._streams = self._streams, {}
        self._waiting.clear()
        for stream in streams.values():
            self._reset_stream(stream)
        self._owner.on_disconnected(self)

    def pause_writing(self) -> None:
        self._is_paused = True

    def resume_writing(self) -> None:
        self._is_paused = False
        self._unread_acks = 0
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
        self._waiting[stream] = None

    def forget_stream(self, stream: Http2Stream) -> None:
        """Forget `stream`, which is over."""
        self._streams.pop(stream.id, None)
        self._waiting.pop(stream, None)
        stream.is_open = False
        stream.handler = None  # they have each other, and neither would go before a garbage collection
        if self._is_draining and not self._streams:
            self.flush()
            if self._transport is not None:
                self._transport.close()

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
            self._transport.write(frames)

    # Called by the server.

    def start_draining(self) -> None:
        """Refuse new streams; close when those that are open have ended."""
        if self._is_draining or self._transport is None:
            return
        self._is_draining = True
        self._send_goaway(ErrorCode.NO_ERROR, "")
        self.flush()
        if not self._streams:
            self._transport.close()

    def abort(self) -> None:
        """Close at once; handlers are told."""
        if self._transport is not None:
            self._transport.abort()

    # Frames

    def _take_frames(self, data: bytes) -> bytes:
        """Handle the whole frames of `data`; return the rest. Raises Http2Error, HpackError."""
        at, size = 0, len(data)
        if not self._has_preface:
            if not _PREFACE.startswith(data[: len(_PREFACE)]):
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "this is no HTTP/2 preface")
            if size < len(_PREFACE):
                return data
            at, self._has_preface = len(_PREFACE), True
            if self._preface_timer is not None:
                self._preface_timer.cancel()
        while size - at >= HEAD_BYTES:
            high, low, kind, flags, stream_id = FRAME_HEAD.unpack_from(data, at)
            length = high << 8 | low
            if length > _MAX_FRAME_BYTES:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a frame of {length} bytes")
            end = at + HEAD_BYTES + length
            if end > size:
                break
            self._handle_frame(kind, flags, stream_id & MAX_STREAM_ID, data[at + HEAD_BYTES : end])
            at = end
        return data[at:] if at else data

    def _handle_frame(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        if self._block is not None and (kind != FrameKind.CONTINUATION or self._block[0] != stream_id):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "headers without their end")
        if kind == _DATA:
            self._handle_data(flags, stream_id, payload)
        elif kind == FrameKind.HEADERS:
            block = strip_padding(flags, payload)
            if flags & HAS_PRIORITY:
                if len(block) < 5:
                    raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "HEADERS without their priority")
                block = block[5:]
            self._handle_block(stream_id, flags, bytearray(block), flags)
        elif kind == FrameKind.CONTINUATION:
            if self._block is None:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of nothing")
            self._handle_block(stream_id, self._block[1], self._block[2] + payload, flags)
        elif kind == FrameKind.WINDOW_UPDATE:
            self._handle_window_update(stream_id, payload)
        elif kind == FrameKind.RST_STREAM:
            self._handle_reset(stream_id, payload)
        elif kind == FrameKind.SETTINGS:
            self._handle_settings(flags, stream_id, payload)
        elif kind == FrameKind.PING:
            if stream_id or len(payload) != 8:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "a PING of another form")
            if not flags & ACK:
                self._acknowledge(encode_frame(FrameKind.PING, ACK, 0, payload))
        elif kind == FrameKind.PUSH_PROMISE:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "clients do not push")

    def _handle_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            self._check_known(stream_id)
        self._ungranted += len(payload)
        if self._ungranted > _GRANTED_BYTES:
            self.write(encode_frame(FrameKind.WINDOW_UPDATE, 0, 0, encode_number(self._ungranted)))
            self._ungranted = 0
        if stream is None:
            return  # it has ended, which the peer did not know yet
        if stream.has_ended:
            raise Http2Error(ErrorCode.STREAM_CLOSED, "DATA after the end of its stream")
        stream.ungranted += len(payload)
        if stream.ungranted > _GRANTED_BYTES:
            self.write(encode_frame(FrameKind.WINDOW_UPDATE, 0, stream_id, encode_number(stream.ungranted)))
            stream.ungranted = 0
        data = strip_padding(flags, payload) if flags & PADDED else payload
        if data and stream.handler is not None:
            stream.handler.on_data(data)
        if flags & END_STREAM:
            self._end_request(stream)

    def _handle_block(self, stream_id: int, first_flags: int, block: bytearray, flags: int) -> None:
        """Handle headers that began with `first_flags`, once a frame whose `flags` say so ends them."""
        if len(block) > _MAX_BLOCK_BYTES:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, f"headers of more than {_MAX_BLOCK_BYTES} bytes")
        if not flags & END_HEADERS:
            self._block = stream_id, first_flags, block
            return
        self._block = None
        if not stream_id & 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"clients have no stream {stream_id}")
        headers = self._decoder.decode_block(bytes(block))
        stream = self._streams.get(stream_id)
        if stream is not None:  # trailers
            if stream.has_ended or not first_flags & END_STREAM:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "HEADERS amid a stream")
            self._end_request(stream)
            return
        if stream_id <= self._last_id:
            return  # trailers of a stream that has ended
        self._last_id = stream_id
        if self._is_draining or len(self._streams) >= self._max_streams:
            self._acknowledge(
                encode_frame(FrameKind.RST_STREAM, 0, stream_id, encode_number(ErrorCode.REFUSED_STREAM))
            )
            return
        stream = self._streams[stream_id] = Http2Stream(self, stream_id, self._stream_window)
        handler = self._owner.open_stream(stream, headers)
        if stream_id in self._streams:  # it may have been refused
            stream.handler = handler
        if first_flags & END_STREAM:
            self._end_request(stream)

    def _end_request(self, stream: Http2Stream) -> None:
        stream.has_ended = True
        if stream.handler is not None:
            stream.handler.on_end()

    def _handle_reset(self, stream_id: int, payload: bytes) -> None:
        self._check_known(stream_id)
        if len(payload) != 4:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "a RST_STREAM of another form")
        stream = self._streams.get(stream_id)
        if stream is not None:
            self._reset_stream(stream)

    def _reset_stream(self, stream: Http2Stream) -> None:
        handler = stream.handler
        self.forget_stream(stream)
        if handler is not None:
            handler.on_reset()

    def _handle_settings(self, flags: int, stream_id: int, payload: bytes) -> None:
        if stream_id or len(payload) % 6:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "SETTINGS of another form")
        if flags & ACK:
            return
        for at in range(0, len(payload), 6):
            name, value = decode_number(payload[at : at + 2]), decode_number(payload[at + 2 : at + 6])
            if name == Setting.WINDOW:
                if value > _MAX_WINDOW_BYTES:
                    raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {value} bytes")
                for stream in self._streams.values():
                    stream.window += value - self._stream_window
                self._stream_window = value
            elif name == Setting.MAX_FRAME:
                if not _LEAST_FRAME_BYTES <= value < 2**24:
                    raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"frames of {value} bytes")
                self._peer_frame_bytes = value
        self._acknowledge(_SETTINGS_ACK)
        self._send_waiting()

    def _handle_window_update(self, stream_id: int, payload: bytes) -> None:
        if len(payload) != 4:
            raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "a WINDOW_UPDATE of another form")
        grant = decode_number(payload) & _MAX_WINDOW_BYTES
        if not grant:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a WINDOW_UPDATE of nothing")
        if not stream_id:
            self._window += grant
            window = self._window
        else:
            self._check_known(stream_id)
            stream = self._streams.get(stream_id)
            if stream is None:
                return
            stream.window += grant
            window = stream.window
        if window > _MAX_WINDOW_BYTES:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {window} bytes")
        self._send_waiting()

    def _check_known(self, stream_id: int) -> None:
        if not stream_id or stream_id > self._last_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"there is no stream {stream_id}")

    def _send_waiting(self) -> None:
        """Let streams go on that waited, each in its turn."""
        waiting, self._waiting = self._waiting, {}
        for stream in waiting:
            stream.send_pending()

    def _acknowledge(self, frame: bytes) -> None:
        if self._is_paused:
            self._unread_acks += 1
            if self._unread_acks > _MAX_UNREAD_ACKS:
                raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, "the peer reads nothing")
        self.write(frame)

    def _send_goaway(self, code: ErrorCode, message: str) -> None:
        payload = encode_number(self._last_id) + encode_number(code) + message.encode()
        self.write(encode_frame(FrameKind.GOAWAY, 0, 0, payload))

    def _fail(self, code: ErrorCode, message: str) -> None:
        self._send_goaway(code, message)
        self.flush()
        self._buffer = b""
        if self._transport is not None:
            self._transport.abort() if self._is_paused else self._transport.close()
