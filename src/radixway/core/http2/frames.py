"""Frames of HTTP/2 (RFC 9113, sections 4 to 7): their numbers, their form, and what is wrong with one."""

from enum import IntEnum
from struct import Struct

HEAD_BYTES = 9
"""Before each payload: its length, the frame's kind and flags, and its stream."""
FRAME_HEAD = Struct(">HBBBI")
"""These: 16 and 8 bits of the length, kind, flags, stream."""
_SETTING = Struct(">HI")
MAX_STREAM_ID = 2**31 - 1


class ErrorCode(IntEnum):
    """Why a stream or a connection ends (RFC 9113, section 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    COMPRESSION_ERROR = 9
    ENHANCE_YOUR_CALM = 11


class Http2Error(Exception):
    """The peer broke the protocol, so its connection ends."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class FrameKind(IntEnum):
    """The kinds of frames."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
HAS_PRIORITY = 0x20


LEAST_FRAME_BYTES = 16_384
"""Payload that every peer takes (section 4.2)."""
DEFAULT_WINDOW_BYTES = 65_535
MAX_WINDOW_BYTES = 2**31 - 1


class Setting(IntEnum):
    """Settings that either side tells the other."""

    ENABLE_PUSH = 2
    MAX_STREAMS = 3
    WINDOW = 4
    MAX_FRAME = 5
    MAX_HEADERS = 6


def encode_frame(kind: FrameKind, flags: int, stream_id: int, payload: bytes | memoryview) -> bytes:
    """Return the frame of that `payload`; stream 0 is the connection itself."""
    size = len(payload)
    return FRAME_HEAD.pack(size >> 8, size & 0xFF, kind, flags, stream_id) + payload


def encode_number(number: int) -> bytes:
    """Return `number` as the four bytes of a payload."""
    return number.to_bytes(4, "big")


def decode_number(payload: bytes) -> int:
    """Return the number that all of `payload` is."""
    return int.from_bytes(payload, "big")


def encode_settings(settings: dict[Setting, int]) -> bytes:
    """Return the SETTINGS frame of `settings`."""
    payload = b"".join(name.to_bytes(2, "big") + encode_number(value) for name, value in settings.items())
    return encode_frame(FrameKind.SETTINGS, 0, 0, payload)


def strip_padding(flags: int, payload: bytes) -> bytes:
    """Return the `payload` of a frame with those `flags` without its padding. Raises Http2Error."""
    if not flags & PADDED:
        return payload
    if not payload or payload[0] >= len(payload):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, "more padding than frame")
    return payload[1 : len(payload) - payload[0]]


def strip_head_fields(flags: int, payload: bytes) -> bytes:
    """Return the header block in the `payload` of HEADERS with those `flags`. Raises Http2Error."""
    block = strip_padding(flags, payload)
    if not flags & HAS_PRIORITY:
        return block
    if len(block) < 5:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, "HEADERS without their priority")
    return block[5:]


_PAYLOAD_BYTES: dict[int, int] = {
    FrameKind.PRIORITY: 5,
    FrameKind.RST_STREAM: 4,
    FrameKind.PING: 8,
    FrameKind.WINDOW_UPDATE: 4,
}
_OF_CONNECTION = frozenset({FrameKind.SETTINGS, FrameKind.PING, FrameKind.GOAWAY})
_OF_STREAMS = frozenset({FrameKind.PRIORITY, FrameKind.RST_STREAM})


def check_form(kind: int, stream_id: int, size: int) -> None:
    """Check the stream and the `size` of the payload of a frame that carries no data. Raises Http2Error."""
    if (stream_id and kind in _OF_CONNECTION) or (not stream_id and kind in _OF_STREAMS):
        raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"a frame of kind {kind} on stream {stream_id}")
    if _PAYLOAD_BYTES.get(kind, size) != size:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"a frame of kind {kind} with {size} bytes")


def parse_settings(payload: bytes) -> dict[int, int]:
    """Return the settings of a frame's `payload`, the last of each name. Raises Http2Error."""
    if len(payload) % _SETTING.size:
        raise Http2Error(ErrorCode.FRAME_SIZE_ERROR, f"SETTINGS of {len(payload)} bytes")
    settings: dict[int, int] = {}
    for name, value in _SETTING.iter_unpack(payload):
        if name == Setting.WINDOW and value > MAX_WINDOW_BYTES:
            raise Http2Error(ErrorCode.FLOW_CONTROL_ERROR, f"a window of {value} bytes")
        if name == Setting.MAX_FRAME and not LEAST_FRAME_BYTES <= value < 2**24:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"frames of {value} bytes")
        if name == Setting.ENABLE_PUSH and value > 1:
            raise Http2Error(ErrorCode.PROTOCOL_ERROR, f"ENABLE_PUSH of {value}")
        settings[name] = value
    return settings
