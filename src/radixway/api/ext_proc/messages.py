"""Replies to Envoy, as messages of `envoy.service.ext_proc.v3`, and heads of requests and replies.

Header values are given as `raw_value` alone: Envoy refuses a header that has `value` too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias
from urllib.parse import unquote

from envoy.config.core.v3.base_pb2 import HeaderMap, HeaderValue, HeaderValueOption
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    BodyMutation,
    BodyResponse,
    CommonResponse,
    HeaderMutation,
    HeadersResponse,
    ImmediateResponse,
    ProcessingResponse,
    TrailersResponse,
)
from envoy.type.v3.http_status_pb2 import HttpStatus, StatusCode

from radixway.api.request_headers import GATEWAY_PREFIXES
from radixway.core.http import Scope
from radixway.core.pipeline import Request
from radixway.routing.transports import filter_reply_headers, is_dropped_header

Headers = Sequence[tuple[bytes, bytes]]
Changes: TypeAlias = HeaderMutation

_KNOWN_STATUSES = frozenset(StatusCode.values())
_REPLACE = HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
_APPEND = HeaderValueOption.APPEND_IF_EXISTS_OR_ADD
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


def decode_headers(headers: HeaderMap) -> list[tuple[bytes, bytes]]:
    """Decode Envoy's `headers`, pseudo headers among them, in order."""
    return [(header.key.encode(), header.raw_value or header.value.encode()) for header in headers.headers]


def header_mutation(wanted: Headers, present: Headers = (), *, removed: Iterable[bytes] = ()) -> Changes:
    """Build the change from `present` to `wanted`; names not wanted stay, unless they are among `removed`."""
    had = _by_name(present)
    changed = [
        (_known_option if len(value) <= _MAX_KNOWN_VALUE_BYTES else _header_option)(name, value, at > 0)
        for name, values in _by_name(wanted).items()
        if name not in _FRAMING and had.get(name) != values
        for at, value in enumerate(values)
    ]
    gone = [name.decode("latin-1") for name in removed]
    return HeaderMutation(set_headers=changed, remove_headers=gone)


_MAX_KNOWN_VALUE_BYTES = 128


def _header_option(name: bytes, value: bytes, is_further: bool) -> HeaderValueOption:
    """Return the option that sets a header, or adds a further value to it."""
    return HeaderValueOption(
        header=HeaderValue(key=name.decode("latin-1"), raw_value=value),
        append_action=_APPEND if is_further else _REPLACE,
    )


_known_option = lru_cache(1024)(_header_option)
"""The same for headers that most requests have; whoever takes an option copies it."""


def _by_name(headers: Headers) -> dict[bytes, list[bytes]]:
    names: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        names.setdefault(name, []).append(value)
    return names


CONTINUE_HEADERS = ProcessingResponse(request_headers=HeadersResponse(response=CommonResponse()))
"""Continues with the request's body."""

BUFFER_BODY = ProcessingResponse(
    response_headers=HeadersResponse(response=CommonResponse()),
    mode_override=ProcessingMode(response_body_mode=ProcessingMode.BUFFERED),
)
"""Holds the answer's head back until its complete body has come."""


def pass_through(changes: Changes, *, clear_route_cache: bool) -> ProcessingResponse:
    """Let a request that is none of ours pass, with `changes` of its headers: Envoy asks nothing more."""
    mode = ProcessingMode(
        request_body_mode=ProcessingMode.NONE,
        response_header_mode=ProcessingMode.SKIP,
        response_body_mode=ProcessingMode.NONE,
    )
    common = CommonResponse(header_mutation=changes, clear_route_cache=clear_route_cache)
    return ProcessingResponse(request_headers=HeadersResponse(response=common), mode_override=mode)


def continue_request(changes: Changes, body: bytes | None, *, clear_route_cache: bool) -> ProcessingResponse:
    """Let the request go on, with `changes` of its headers and with `body` where it is another."""
    common = CommonResponse(
        header_mutation=changes,
        body_mutation=None if body is None else _body_mutation(body),
        clear_route_cache=clear_route_cache,
    )
    return ProcessingResponse(request_body=BodyResponse(response=common))


def continue_response_headers(changes: Changes, *, has_body: bool) -> ProcessingResponse:
    """Let the reply's head go on with `changes`; its body, if it has one, is to come in pieces."""
    mode = ProcessingMode.STREAMED if has_body else ProcessingMode.NONE
    return ProcessingResponse(
        response_headers=HeadersResponse(response=CommonResponse(header_mutation=changes)),
        mode_override=ProcessingMode(response_body_mode=mode),
    )


def continue_response_body(body: bytes | None, changes: Changes | None = None) -> ProcessingResponse:
    """Replace a frame of the reply by `body`; None: it stays as it is."""
    replaced = None if body is None else _body_mutation(body)
    common = CommonResponse(header_mutation=changes, body_mutation=replaced)
    return ProcessingResponse(response_body=BodyResponse(response=common))


def continue_trailers(request: bool) -> ProcessingResponse:
    """Trailers, of the request or of the answer, are left as they are."""
    if request:
        return ProcessingResponse(request_trailers=TrailersResponse())
    return ProcessingResponse(response_trailers=TrailersResponse())


def immediate_response(status: int, headers: Headers, body: bytes) -> ProcessingResponse:
    """Build the whole reply of this `status`, in place of any other. Envoy asks nothing more."""
    if status not in _KNOWN_STATUSES:  # which Envoy refuses
        status = status // 100 * 100 if 200 <= status < 600 else 500
    return ProcessingResponse(
        immediate_response=ImmediateResponse(
            status=HttpStatus(code=status),
            headers=header_mutation(headers),
            body=body,
            details="radixway",
        )
    )


def _body_mutation(body: bytes) -> BodyMutation:
    return BodyMutation(body=body) if body else BodyMutation(clear_body=True)


Header = tuple[bytes, bytes]

DESTINATION = b"x-gateway-destination-endpoint"
"""Header from which Envoy's cluster (ORIGINAL_DST) reads the worker's address, `ip:port`."""
MODEL = b"x-selected-model"

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
"""Headers that Envoy needs itself or does not let others change."""


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
        return sorted({name for name, _ in self.headers if name.startswith(GATEWAY_PREFIXES)})


def worker_headers(
    request: Request, head: RequestHead, base_path: str, destination: str, api_key: str | None, via: bytes
) -> tuple[list[Header], list[bytes]]:
    """Return the headers that a worker gets, and the names of those in `head` that are to be removed."""
    headers = [header for header in request.headers if header[0] != b"via"]
    passed = b", ".join(value for name, value in request.headers if name == b"via")
    if request.routing.resolved_model and not any(name == MODEL for name, _ in headers):
        headers.append((MODEL, request.routing.resolved_model.encode("utf-8", "replace")))
    headers += [
        (DESTINATION, destination.encode("ascii")),
        (b"content-type", b"application/json"),
        (b"x-request-id", request.id.encode("ascii")),
        (b"accept-encoding", b"identity"),  # a compressed answer could not be parsed
        (b"via", b"%b, %b" % (passed, via) if passed else via),
    ]
    if request.journal.trace is not None:
        headers += request.journal.trace.propagation_headers(len(request.routing.attempted_workers))
    if api_key is not None:
        headers.append((b"authorization", b"Bearer " + api_key.encode()))
    target = (base_path + request.path).encode("latin-1")
    if target != head.target.encode("latin-1"):
        headers.append((b":path", target))
    retained = {name for name, _ in headers} | _ENVOYS
    given = {name for name, _ in head.headers}
    return headers, sorted(name for name in given - retained if not name.startswith(b"x-envoy-"))


def split_response_headers(raw: list[Header]) -> tuple[int, list[Header], list[bytes]]:
    """Split `raw` into status, the headers that reach the client, and the names of the others."""
    status = next((int(value) for name, value in raw if name == b":status"), 502)
    headers = filter_reply_headers([header for header in raw if header[0][:1] != b":"])
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
