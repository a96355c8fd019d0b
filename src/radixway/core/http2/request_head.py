"""The head of a request: its header block as frames bring it, and whether its headers are in order."""

from collections.abc import Iterable

from radixway.core.http2.frames import ErrorCode, Http2Error
from radixway.core.http2.hpack import Header
from radixway.core.http2.peer_limits import MAX_BLOCK_BYTES, MAX_CONTINUATIONS

_REQUIRED = frozenset({b":method", b":scheme", b":path"})
_PSEUDO = _REQUIRED | {b":authority"}
_OF_HTTP_1 = frozenset({b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"})


class HeaderBlock:
    """A header block whose last frame has not come."""

    __slots__ = ("_continuations", "flags", "fragments", "stream_id")

    def __init__(self, stream_id: int, flags: int, fragment: bytes) -> None:
        """`flags`: of the HEADERS that it began with; `fragment`: what they brought."""
        self.stream_id = stream_id
        self.flags = flags
        self.fragments = bytearray(fragment)
        self._continuations = 0

    def append(self, fragment: bytes) -> None:
        """Add the next `fragment`. Raises Http2Error: there are too many, or too much is in them."""
        self._continuations += 1
        self.fragments += fragment
        if len(self.fragments) > MAX_BLOCK_BYTES:
            raise Http2Error(ErrorCode.ENHANCE_YOUR_CALM, f"headers of more than {MAX_BLOCK_BYTES} bytes")
        if self._continuations > MAX_CONTINUATIONS:
            raise Http2Error(
                ErrorCode.ENHANCE_YOUR_CALM, f"headers in more than {MAX_CONTINUATIONS + 1} frames"
            )


def is_well_formed(headers: Iterable[Header]) -> bool:
    """Return whether `headers` can be a request's (RFC 9113, sections 8.2 and 8.3); CONNECT is not served."""
    found: set[bytes] = set()
    have_pseudo_ended = False
    for name, value in headers:
        if name.startswith(b":"):
            if have_pseudo_ended or name in found or name not in _PSEUDO or not value:
                return False
            found.add(name)
            continue
        have_pseudo_ended = True
        if not name or name != name.lower() or name in _OF_HTTP_1:
            return False
    return found >= _REQUIRED
