"""Frames of HTTP/2 (RFC 9113, sections 4 to 7): their numbers, their form, and what is wrong with one."""

from enum import IntEnum
from struct import Struct

HEAD_BYTES = 9
"""Before each payload: its length, the frame's kind and flags, and its stream."""
FRAME_HEAD = Struct(">HBBBI")
"""These: 16 and 8 bits of the length, kind, flags, stream."""
MAX_STREAM_ID = 2**31 - 1


class ErrorCode(IntEnum):
    """Why a stream or a connection ends (RFC 9113, section 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    FLOW_CONTROL_ERROR = 3
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
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


class Setting(IntEnum):
    """Settings that either side tells the other."""

    MAX_STREAMS = 3
    WINDOW = 4
    MAX_FRAME = 5
    MAX_HEADERS = 6


def encode_frame(kind: FrameKind, flags: int, stream_id: int, payload: bytes) -> bytes:
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
