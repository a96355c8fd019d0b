"""HTTP/2 as a server speaks it, without TLS of its own: what a gRPC service needs of RFC 9113 and RFC 7541.

Start with `connection.py`; `hpack.py` reads the headers of requests.
"""

from radixway.core.http2.connection import Http2Connection
from radixway.core.http2.frames import Http2Error
from radixway.core.http2.hpack import Header, HpackError, encode_headers
from radixway.core.http2.stream import ConnectionOwner, Http2Stream, StreamConnection, StreamHandler

__all__ = [
    "ConnectionOwner",
    "Header",
    "HpackError",
    "Http2Connection",
    "Http2Error",
    "Http2Stream",
    "StreamConnection",
    "StreamHandler",
    "encode_headers",
]
