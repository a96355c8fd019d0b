"""Which headers of a worker's answer reach the client, whoever brings it: our own connections, or Envoy."""

from __future__ import annotations

from collections.abc import Sequence

# Framing is ours to choose; the rest describes one connection, names the software behind it, or is the
# worker's word to browsers about a host name that is not its own.
_DROPPED_NAMES = frozenset(
    {
        b"alt-svc",
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"transfer-encoding",
        b"content-length",
        b"date",
        b"server",
        b"set-cookie",
        b"strict-transport-security",
        b"trailer",
        b"upgrade",
        b"via",
        b"x-request-id",
    }
)
_DROPPED_PREFIXES = (b"access-control-", b"x-radixway-")
"""What the gateway alone says: which pages may read its answers, and what became of a request."""


_OF_THE_CONNECTION = (b"keep-alive", b"close")


def is_dropped_header(name: bytes) -> bool:
    """Whether a header of that name, in lower case, does not reach the client."""
    return name in _DROPPED_NAMES or name.startswith(_DROPPED_PREFIXES)


def filter_reply_headers(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Those of a worker's headers that reach the client; not what `Connection` names (RFC 9110, 7.6.1)."""
    kept = [header for header in headers if not is_dropped_header(header[0])]
    for name, value in headers:
        if name == b"connection" and value.lower() not in _OF_THE_CONNECTION:
            named = {each.strip() for each in value.lower().split(b",")}
            kept = [header for header in kept if header[0] not in named]
    return kept
