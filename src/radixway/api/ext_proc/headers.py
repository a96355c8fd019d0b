"""Heads of requests and answers: Envoy's on one side, ASGI's and the workers' on the other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from radixway.core.http import Scope
from radixway.core.pipeline import Request
from radixway.routing.transports import filter_reply_headers, is_dropped_header

Header = tuple[bytes, bytes]

DESTINATION = b"x-gateway-destination-endpoint"
"""Where Envoy's cluster (ORIGINAL_DST) reads the worker's address, `ip:port`."""
MODEL = b"x-selected-model"

_SPOOFED = (
    b"x-gateway-destination-",
    b"x-selected-model",
    b"x-vsr-",
    b"x-radixway-",
    b"x-worker-",
    b"x-prefill-",
)
"""What Envoy, workers and gateways take from each other and not from clients."""
_ENVOYS = frozenset(
    {
        b"connection",
        b"content-length",
        b"host",
        b"te",
        b"transfer-encoding",
        b"upgrade",
        b"x-forwarded-proto",
    }
)
"""What Envoy itself needs, or does not let anybody change."""


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of a request."""

    method: str
    target: str
    """Path and query as they came."""
    headers: tuple[Header, ...]
    """Without pseudo headers, names in lower case."""

    @classmethod
    def from_envoy(cls, raw: list[Header]) -> RequestHead:
        """Parse the `raw` headers of Envoy."""
        pseudo = {name: value for name, value in raw if name[:1] == b":"}
        rest = [header for header in raw if header[0][:1] != b":"]
        if b":authority" in pseudo and not any(name == b"host" for name, _ in rest):
            rest.append((b"host", pseudo[b":authority"]))
        method = pseudo.get(b":method", b"GET").decode("latin-1")
        return cls(method, pseudo.get(b":path", b"/").decode("latin-1"), tuple(rest))

    @property
    def path(self) -> str:
        """Decoded, without the query."""
        return unquote(self.target.partition("?")[0])

    def to_scope(self, client: tuple[str, int] | None) -> Scope:
        """Build the ASGI scope of the request from `client`."""
        raw_path, _, query = self.target.partition("?")
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "1.1",
            "method": self.method,
            "scheme": "http",
            "path": unquote(raw_path),
            "raw_path": raw_path.encode("latin-1"),
            "query_string": query.encode("latin-1"),
            "root_path": "",
            "headers": list(self.headers),
            "client": client,
            "server": None,
        }
        return scope

    def spoofed_headers(self) -> list[bytes]:
        """Names that a client has no business to send."""
        return sorted({name for name, _ in self.headers if name.startswith(_SPOOFED)})


def worker_headers(
    request: Request, head: RequestHead, base_path: str, destination: str, api_key: str | None, via: bytes
) -> tuple[list[Header], list[bytes]]:
    """Return the headers that a worker gets, as from the gateway itself, and the names of those in `head` to
    be removed.
    """
    headers = [header for header in request.headers if header[0] != b"via"]
    passed = b", ".join(value for name, value in request.headers if name == b"via")
    if request.routing.resolved_model and not any(name == MODEL for name, _ in headers):
        headers.append((MODEL, request.routing.resolved_model.encode("utf-8", "replace")))
    headers += [
        (DESTINATION, destination.encode("ascii")),
        (b"content-type", b"application/json"),
        (b"x-request-id", request.id.encode("ascii")),
        (b"accept-encoding", b"identity"),  # what is compressed nobody here could read
        (b"via", b"%b, %b" % (passed, via) if passed else via),
    ]
    if request.journal.trace is not None:
        headers += request.journal.trace.propagation_headers(len(request.routing.attempted_workers))
    if api_key is not None:
        headers.append((b"authorization", b"Bearer " + api_key.encode()))
    target = (base_path + request.path).encode("latin-1")
    if target != head.target.encode("latin-1"):
        headers.append((b":path", target))
    return headers, _removed(head, {name for name, _ in headers})


def _removed(head: RequestHead, kept: Collection[bytes]) -> list[bytes]:
    given = {name for name, _ in head.headers} - _ENVOYS
    return sorted(name for name in given if name not in kept and not name.startswith(b"x-envoy-"))


def split_response_headers(raw: list[Header]) -> tuple[int, list[Header], list[bytes]]:
    """Split `raw` into status, the headers that reach the client, and the names of the others."""
    status = next((int(value) for name, value in raw if name == b":status"), 502)
    headers = filter_reply_headers([each for each in raw if each[0][:1] != b":"])
    gone = {name for name, _ in raw if is_dropped_header(name)} - _FRAMED_BY_ENVOY
    return status, headers, sorted(gone)


_FRAMED_BY_ENVOY = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"transfer-encoding",
        b"content-length",
        b"date",
        b"server",
        b"trailer",
        b"upgrade",
    }
)
