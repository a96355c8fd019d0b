"""Sorting of a client's headers: those that travel on to the worker, and those for the gateway itself."""

import re
from math import isfinite
from urllib.parse import quote, unquote_plus

from starlette.requests import HTTPConnection

from radixway.core.http import choose_request_id
from radixway.core.pipeline import BadRequest, Request

GATEWAY_PREFIXES = (
    *(b"x-vsr-", b"x-radixway-", b"x-worker-", b"x-prefill-", b"x-selected-model"),
    b"x-gateway-destination-",
)
"""Headers that gateways, workers and Envoy accept from each other, not from clients."""
# Believed only from a trusted hop, or about a connection that ends here.
_STRIPPED = (b"x-forwarded-", b"x-real-ip", b"x-request-id", b"x-tenant-id", *GATEWAY_PREFIXES)
# Credentials, which are not for operators of workers.
_CREDENTIAL = re.compile(rb"auth|token|secret|password|credential|cookie|api-?key|-jwt")
_CACHE = (b"cache-control", b"x-vsr-cache-control")
_OWN = frozenset(
    {
        b"x-radixway-ttft-ms",
        b"x-radixway-max-staleness",
        b"x-radixway-min-weight-version",
        b"x-radixway-preference",
        *_CACHE,
    }
)
"""Headers for the gateway that workers do not get."""
_PASSED = frozenset(
    {b"accept", b"traceparent", b"tracestate", b"via", b"anthropic-version", b"anthropic-beta"}
)


def read_headers(
    raw: list[tuple[bytes, bytes]],
) -> tuple[str, tuple[tuple[bytes, bytes], ...], dict[bytes, bytes]]:
    """Split `raw` into the request's id, the headers that travel on, and those for the gateway itself."""
    given: bytes | None = None
    own = {}
    passed = []
    for header in raw:
        name, value = header
        if name in _PASSED:
            passed.append(header)
        elif name in _OWN:
            own[name] = value
        elif name[:2] == b"x-":
            if name == b"x-request-id":
                given = value
            elif not name.startswith(_STRIPPED) and not _CREDENTIAL.search(name):
                passed.append(header)
    return choose_request_id(given), tuple(passed), own


def request_target(request: HTTPConnection, *, without: str = "") -> str:
    """Return path and query of `request`, byte for byte; `without`: a field of the query to leave out."""
    scope = request.scope
    parts = scope["query_string"].decode("latin-1").split("&")
    if without:
        parts = [part for part in parts if unquote_plus(part.partition("=")[0]) != without]
    query = "&".join(parts)
    return f"{quote(scope['path'])}?{query}" if query else quote(scope["path"])


def apply_gateway_headers(request: Request, own: dict[bytes, bytes]) -> None:
    """Apply the gateway's headers, `own`, to `request`. Raises BadRequest naming the one at fault."""
    if (ttft_ms := own.get(b"x-radixway-ttft-ms")) is not None:
        request.ttft_s = _parse_milliseconds(ttft_ms)
    if (staleness := own.get(b"x-radixway-max-staleness")) is not None:
        if not staleness.isdigit() or len(staleness) > 9:
            message = "x-radixway-max-staleness must be a whole number of versions, 0 or more"
            raise BadRequest(message, param="x-radixway-max-staleness")
        request.max_staleness = int(staleness)
    if (version := own.get(b"x-radixway-min-weight-version")) is not None:
        if not 0 < len(version) <= 256:
            message = "x-radixway-min-weight-version must be a version of 1 to 256 characters"
            raise BadRequest(message, param="x-radixway-min-weight-version")
        request.min_weight_version = version.decode(errors="replace")
    if directives := [own[name] for name in _CACHE if name in own]:
        request.cache_control = b",".join(directives).decode("latin-1")
    if (preference := own.get(b"x-radixway-preference")) is not None:
        request.preference = preference.decode(errors="replace")


def _parse_milliseconds(milliseconds: bytes) -> float:
    try:
        number = float(milliseconds)
    except ValueError:
        number = 0.0
    if not (isfinite(number) and number > 0):
        message = "x-radixway-ttft-ms must be a number of milliseconds above 0"
        raise BadRequest(message, param="x-radixway-ttft-ms")
    return number / 1e3
