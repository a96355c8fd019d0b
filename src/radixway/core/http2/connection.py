"""One HTTP/2 connection of a client: frames in, streams and their flow control, frames out.

    data_received ─► frames ─► HEADERS opens a stream ─► its handler: on_data, on_end, on_reset
                                                            │
    transport ◄── one write per turn of the loop ◄──────────┴── send_headers, send_data, finish

What is received is granted to the sender again at once, since handlers keep what they need and bound it. What
is sent (`frame_sender.py`) waits for the windows of the stream and of the connection. A peer that breaks the
protocol, or goes beyond `peer_limits.py`, is told so by GOAWAY, and the connection ends: were it the stream
alone, a peer could begin any number of them and have them reset (CVE-2025-8671). A handler that raises ends
its stream alone.
"""

from __future__ import annotations

import asyncio
import logging
from typing import cast

from radixway.core.http2.frame_sender import FrameSender
from radixway.core.http2.frames import (
    ACK,
    DEFAULT_WINDOW_BYTES,
    END_HEADERS,
    END_STREAM,
    FRAME_HEAD,
    HEAD_BYTES,
    MAX_STREAM_ID,
    MAX_WINDOW_BYTES,
    PADDED,
    ErrorCode,
    FrameKind,
    Http2Error,
    Setting,
    check_form,
    decode_number,
    encode_frame,
    encode_number,
    encode_settings,
    parse_settings,
    strip_head_fields,
    strip_padding,
)
from radixway.core.http2.hpack import Header, HeaderDecoder, HpackError
from radixway.core.http2.peer_limits import (
    MAX_BLOCK_BYTES,
    MAX_IDLE_FRAMES,
    MAX_RAPID_RESETS,
    RAPID_RESET_S,
    FrameBudget,
)
from radixway.core.http2.request_head import HeaderBlock, is_well_formed
from radixway.core.http2.stream import ConnectionOwner, Http2Stream

log = logging.getLogger(__name__)

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_MAX_FRAME_BYTES = 65_536
"""Payload of a frame that peers may send."""
_WINDOW_BYTES = 4 * 2**20
"""What a peer may send on a stream, or a connection, before it is granted more."""
_GRANTED_BYTES = _WINDOW_BYTES // 2
"""What is received before it is granted again."""
_PREFACE_TIMEOUT_S = 20.0
_GOAWAY_TIMEOUT_S = 5.0
"""What a peer has to read why its connection ends."""
_EARNED_FRAMES = 4
"""Idle frames that may go with a request, or with a piece of one."""
_DATA = int(FrameKind.DATA)
_HANDLER_FAILED = "the handler of HTTP/2 stream %d failed unexpectedly"
_SETTINGS_ACK = encode_frame(FrameKind.SETTINGS, ACK, 0, b"")


class Http2Connection(FrameSender):
    """The protocol of one accepted connection, TLS beneath it or not."""

    def __init__(self, owner: ConnectionOwner, *, max_streams: int) -> None:
        """`max_streams`: at a time; more are refused."""
        super().__init__()
        self._owner = owner
        self._max_streams = max_streams
        self._buffer = b""
        self._has_preface = False
        self._decoder = HeaderDecoder(max_list_bytes=MAX_BLOCK_BYTES)
        self._streams: dict[int, Http2Stream] = {}
        self._last_id = 0
        """The latest stream that the peer opened."""
        self._block: HeaderBlock | None = None
        """The headers that a CONTINUATION goes on with."""
        self._checked_headers: list[Header] = []
        """Of the latest stream; those of a remembered block need no other look."""
        self._idle_frames = FrameBudget(MAX_IDLE_FRAMES, "frames that bring nothing", self._loop.time)
        self._rapid_resets = FrameBudget(MAX_RAPID_RESETS, "streams that were reset at once", self._loop.time)
        self._stream_window = DEFAULT_WINDOW_BYTES
        """What a new stream may send."""
        self._ungranted = 0
        self._is_draining = False
        self._has_failed = False
        self._timer: asyncio.TimerHandle | None = None
        """Until the preface has come, and after GOAWAY."""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._owner.on_connected(self)
        self._timer = self._loop.call_later(_PREFACE_TIMEOUT_S, self._transport.abort)
        settings = {
            Setting.MAX_STREAMS: self._max_streams,
            Setting.WINDOW: _WINDOW_BYTES,
            Setting.MAX_FRAME: _MAX_FRAME_BYTES,
            Setting.MAX_HEADERS: MAX_BLOCK_BYTES,
        }
        grant = encode_number(_WINDOW_BYTES - DEFAULT_WINDOW_BYTES)
        self.write(encode_settings(settings) + encode_frame(FrameKind.WINDOW_UPDATE, 0, 0, grant))

    def data_received(self, data: bytes) -> None:
        if self._has_failed:  # TLS may still have some
            return
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
        if self._timer is not None:
            self._timer.cancel()
        self._reset_all_streams()
        self._owner.on_disconnected(self)

    # Called by streams.

    def forget_stream(self, stream: Http2Stream) -> None:
        """Forget `stream`, whose reply is whole."""
        self._rapid_resets.earn(1)
        self._drop_stream(stream)

    def fail_stream(self, stream: Http2Stream, code: ErrorCode) -> None:
        """End `stream` alone, with `code`; its handler is told."""
        if stream.id in self._streams:
            self.write(encode_frame(FrameKind.RST_STREAM, 0, stream.id, encode_number(code)))
            self._reset_stream(stream)

    def _drop_stream(self, stream: Http2Stream) -> None:
        self._streams.pop(stream.id, None)
        self._waiting.pop(stream, None)
        stream.is_open = False
        stream.handler = None  # they have each other, and neither would go before a garbage collection
        if self._is_draining and not self._streams:
            self.flush()
            if self._transport is not None:
                self._transport.close()

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
            if size < len(_PREFACE) + HEAD_BYTES:
                return data
            if data[len(_PREFACE) + 3] != FrameKind.SETTINGS:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a preface without SETTINGS")
            at, self._has_preface = len(_PREFACE), True
            if self._timer is not None:
                self._timer.cancel()
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
        block = self._block
        if block is not None and (kind != FrameKind.CONTINUATION or block.stream_id != stream_id):
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "headers without their end")
        if kind == _DATA:
            self._handle_data(flags, stream_id, payload)
        elif kind == FrameKind.HEADERS:
            fragment = strip_head_fields(flags, payload)
            if flags & END_HEADERS:
                self._handle_headers(stream_id, flags, fragment)
            else:
                self._block = HeaderBlock(stream_id, flags, fragment)
        elif kind == FrameKind.CONTINUATION:
            if block is None:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "CONTINUATION of nothing")
            block.append(payload)
            if flags & END_HEADERS:
                self._block = None
                self._handle_headers(stream_id, block.flags, bytes(block.fragments))
        else:
            check_form(kind, stream_id, len(payload))
            self._handle_control(kind, flags, stream_id, payload)

    def _handle_control(self, kind: int, flags: int, stream_id: int, payload: bytes) -> None:
        """Handle a frame without data or headers, whose form was checked."""
        if kind == FrameKind.WINDOW_UPDATE:
            self._handle_window_update(stream_id, decode_number(payload) & MAX_WINDOW_BYTES)
        elif kind == FrameKind.RST_STREAM:
            self._handle_reset(stream_id)
        elif kind == FrameKind.PUSH_PROMISE:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "clients do not push")
        else:
            self._idle_frames.spend()
            if kind == FrameKind.SETTINGS:
                self._handle_settings(flags, payload)
            elif kind == FrameKind.PING and not flags & ACK:
                self.write(encode_frame(FrameKind.PING, ACK, 0, payload))

    def _handle_data(self, flags: int, stream_id: int, payload: bytes) -> None:
        stream = self._streams.get(stream_id) or self._find_stream(stream_id)
        self._ungranted += len(payload)
        if self._ungranted > _GRANTED_BYTES:
            self.write(encode_frame(FrameKind.WINDOW_UPDATE, 0, 0, encode_number(self._ungranted)))
            self._ungranted = 0
        if stream is None:  # it has ended, which the peer did not know yet
            if not payload:
                self._idle_frames.spend()
            return
        if stream.has_ended:
            raise Http2Error(ErrorCode.STREAM_CLOSED, "DATA after the end of its stream")
        stream.ungranted += len(payload)
        if stream.ungranted > _GRANTED_BYTES:
            self.write(encode_frame(FrameKind.WINDOW_UPDATE, 0, stream_id, encode_number(stream.ungranted)))
            stream.ungranted = 0
        data = strip_padding(flags, payload) if flags & PADDED else payload
        if data:
            self._idle_frames.earn(_EARNED_FRAMES)
            stream.is_unanswered = True
            if stream.handler is not None:
                try:
                    stream.handler.on_data(data)
                except Exception:
                    log.exception(_HANDLER_FAILED, stream.id)
                    self.fail_stream(stream, ErrorCode.INTERNAL_ERROR)
        elif not flags & END_STREAM:
            self._idle_frames.spend()
        if flags & END_STREAM:
            self._end_request(stream)

    def _handle_headers(self, stream_id: int, flags: int, block: bytes) -> None:
        """Handle a whole header `block`; `flags` are of the HEADERS that it began with."""
        if not stream_id & 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"clients have no stream {stream_id}")
        headers = self._decoder.decode_block(block)
        stream = self._streams.get(stream_id)
        if stream is not None:  # trailers
            if stream.has_ended:
                raise Http2Error(ErrorCode.STREAM_CLOSED, "HEADERS after the end of their stream")
            if not flags & END_STREAM:
                raise Http2Error(ErrorCode.PROTOCOL_ERROR, "HEADERS amid a stream")
            self._end_request(stream)
        elif stream_id > self._last_id:
            self._last_id = stream_id
            if self._is_draining or len(self._streams) >= self._max_streams:
                self._refuse_stream(stream_id, ErrorCode.REFUSED_STREAM)
            elif headers is not self._checked_headers and not is_well_formed(headers):
                self._refuse_stream(stream_id, ErrorCode.PROTOCOL_ERROR)
            else:
                self._checked_headers = headers
                self._open_stream(stream_id, headers, has_ended=bool(flags & END_STREAM))
        elif flags & END_STREAM:
            self._idle_frames.spend()  # trailers of a stream that has ended
        else:
            raise Http2Error(ErrorCode.STREAM_CLOSED, f"stream {stream_id} was opened before")

    def _refuse_stream(self, stream_id: int, code: ErrorCode) -> None:
        self._rapid_resets.spend()
        self.write(encode_frame(FrameKind.RST_STREAM, 0, stream_id, encode_number(code)))

    def _open_stream(self, stream_id: int, headers: list[Header], *, has_ended: bool) -> None:
        """Open the stream of a request; `has_ended`: it has no body."""
        self._idle_frames.earn(_EARNED_FRAMES)
        stream = Http2Stream(self, stream_id, self._stream_window, self._loop.time())
        self._streams[stream_id] = stream
        try:
            handler = self._owner.open_stream(stream, headers)
        except Exception:
            log.exception(_HANDLER_FAILED, stream.id)
            self.fail_stream(stream, ErrorCode.INTERNAL_ERROR)
            return
        if stream_id in self._streams:  # it may have been refused
            stream.handler = handler
        if has_ended:
            self._end_request(stream)

    def _end_request(self, stream: Http2Stream) -> None:
        stream.has_ended = True
        if stream.handler is not None:
            try:
                stream.handler.on_end()
            except Exception:
                log.exception(_HANDLER_FAILED, stream.id)
                self.fail_stream(stream, ErrorCode.INTERNAL_ERROR)

    def _handle_reset(self, stream_id: int) -> None:
        stream = self._find_stream(stream_id)
        if stream is None:
            self._idle_frames.spend()
            return
        if not stream.is_unanswered:
            self._rapid_resets.earn(1)  # so Envoy ends each of its calls
        elif self._loop.time() - stream.opened_at_s < RAPID_RESET_S:
            self._rapid_resets.spend()
        self._reset_stream(stream)

    def _reset_stream(self, stream: Http2Stream) -> None:
        handler = stream.handler
        self._drop_stream(stream)
        if handler is not None:
            try:
                handler.on_reset()
            except Exception:
                log.exception(_HANDLER_FAILED, stream.id)

    def _reset_all_streams(self) -> None:
        streams, self._streams = self._streams, {}
        self._waiting.clear()
        for stream in streams.values():
            self._reset_stream(stream)

    def _handle_settings(self, flags: int, payload: bytes) -> None:
        if flags & ACK:
            if payload:
                raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "an acknowledgement with settings")
            return
        settings = parse_settings(payload)
        self._peer_frame_bytes = settings.get(Setting.MAX_FRAME, self._peer_frame_bytes)
        self.write(_SETTINGS_ACK)
        change = settings.get(Setting.WINDOW, self._stream_window) - self._stream_window
        if change:
            self._stream_window += change
            for stream in list(self._streams.values()):
                self._grant_stream(stream, change)

    def _handle_window_update(self, stream_id: int, grant: int) -> None:
        if not grant:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, "a WINDOW_UPDATE of nothing")
        if not stream_id:
            self._grant_connection(grant)
        elif (stream := self._find_stream(stream_id)) is not None:
            self._grant_stream(stream, grant)

    def _find_stream(self, stream_id: int) -> Http2Stream | None:
        """Return the stream, or None if it has ended. Raises Http2Error: it was never opened."""
        if not stream_id & 1 or stream_id > self._last_id:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"there is no stream {stream_id}")
        return self._streams.get(stream_id)

    def _send_goaway(self, code: ErrorCode, message: str) -> None:
        payload = encode_number(self._last_id) + encode_number(code) + message.encode()
        self.write(encode_frame(FrameKind.GOAWAY, 0, 0, payload))

    def _fail(self, code: ErrorCode, message: str) -> None:
        self._send_goaway(code, message)
        self.flush()
        self._buffer = b""
        self._has_failed = True
        self._reset_all_streams()
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._timer = self._loop.call_later(_GOAWAY_TIMEOUT_S, self._transport.abort)
            self._transport.abort() if self._is_paused else self._transport.close()
