"""Read workers' answers: bounded bodies, headers for the client, weight versions, error messages."""

import re
from collections.abc import Sequence

import aiohttp

from radixway.routing.transports.upstream_response import ResponseTooLargeError

MAX_ANSWER_BYTES = 8 * 2**20
CALL_ERRORS = (aiohttp.ClientError, OSError, ResponseTooLargeError)
"""What a call to a worker ends with that brings no answer; a TimeoutError is an OSError."""


async def read_bounded(response: aiohttp.ClientResponse, limit: int = MAX_ANSWER_BYTES) -> bytes:
    """The whole body. Raises ResponseTooLargeError as soon as it is longer than `limit` bytes."""
    if (response.content_length or 0) > limit:
        raise ResponseTooLargeError(limit)
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > limit:
            raise ResponseTooLargeError(limit)
    return bytes(body)


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
"""Response headers that only the gateway sets."""


def is_dropped_header(name: bytes) -> bool:
    """Return True if a header of that `name`, in lower case, does not reach the client."""
    return name in _DROPPED_NAMES or name.startswith(_DROPPED_PREFIXES)


def filter_reply_headers(headers: Sequence[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Return the worker's headers that reach the client; not what `Connection` names (RFC 9110, 7.6.1)."""
    passed = []
    named: set[bytes] = set()
    for header in headers:
        name, value = header
        if name == b"connection":
            named.update(each.strip() for each in value.lower().split(b","))
        elif not is_dropped_header(name):
            passed.append(header)
    if named.isdisjoint(name for name, _ in passed):
        return passed
    return [header for header in passed if header[0] not in named]


_KEY = b'"weight_version"'
# Inside a JSON text the key's quotes would be escaped, so what is found is a key.
_VALUE = re.compile(rb'\s*:\s*(?:"([^"\\]{1,256})"|(\d{1,256})\b)')


def find_weight_version(body: bytes) -> str | None:
    """Find SGLang's weight version in `meta_info` or chat completions' `metadata`; of a batch the first."""
    at = body.find(_KEY)
    if at < 0:
        return None
    found = _VALUE.match(body, at + len(_KEY))
    return (found[1] or found[2]).decode(errors="replace") if found is not None else None
