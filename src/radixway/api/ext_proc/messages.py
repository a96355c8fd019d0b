"""Replies to Envoy, as serialised messages of `envoy.service.ext_proc.v3`, and heads of requests and replies.

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

from radixway.api.ext_proc.wire_format import encode_field, field_tag, serialize_message
from radixway.api.request_headers import GATEWAY_PREFIXES
from radixway.core.http import Scope
from radixway.core.pipeline import Request
from radixway.routing.transports import filter_reply_headers

Headers = Sequence[tuple[bytes, bytes]]
Changes: TypeAlias = bytes
"""A serialised `HeaderMutation`; two of them joined are both changes."""

_KNOWN_STATUSES = frozenset(StatusCode.values())
_REPLACE = HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
_APPEND = HeaderValueOption.APPEND_IF_EXISTS_OR_ADD
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


def decode_headers(headers: HeaderMap) -> list[tuple[bytes, bytes]]:
    """Decode Envoy's `headers`, pseudo headers among them, in order."""
    return [(header.key.encode(), header.raw_value or header.value.encode()) for header in headers.headers]


def header_mutation(wanted: Headers, present: Headers = (), *, removed: Iterable[bytes] = ()) -> Changes:
    """Build the change from `present` to `wanted`; names not wanted stay, unless they are among `removed`."""
    had = dict(present)
    if len(had) == len(present) and len(dict(wanted)) == len(wanted):  # no name has two values
        changed = [
            (_known_option if len(value) <= _MAX_KNOWN_VALUE_BYTES else _header_option)(name, value, False)
            for name, value in wanted
            if had.get(name) != value and name not in _FRAMING
        ]
    else:
        several = _by_name(present)
        changed = [
            _header_option(name, value, at > 0)
            for name, values in _by_name(wanted).items()
            if name not in _FRAMING and several.get(name) != values
            for at, value in enumerate(values)
        ]
    return b"".join([*changed, *map(remove_header, removed)])


_MAX_KNOWN_VALUE_BYTES = 128
_SET_HEADERS = field_tag(HeaderMutation, "set_headers")
_REMOVE_HEADERS = field_tag(HeaderMutation, "remove_headers")


_HEADER = field_tag(HeaderValueOption, "header")
_KEY = field_tag(HeaderValue, "key")
_RAW_VALUE = field_tag(HeaderValue, "raw_value")
_ACTIONS = {
    action: serialize_message(HeaderValueOption(append_action=action)) for action in (_REPLACE, _APPEND)
}


def _header_option(name: bytes, value: bytes, is_further: bool) -> Changes:
    """Return the change that sets a header, or adds a further value to it."""
    header = encode_field(_KEY, name.decode("latin-1").encode()) + encode_field(_RAW_VALUE, value)
    action = _ACTIONS[_APPEND if is_further else _REPLACE]
    return encode_field(_SET_HEADERS, encode_field(_HEADER, header) + action)


_known_option = lru_cache(1024)(_header_option)
"""The same for headers that most requests have."""


@lru_cache(1024)
def remove_header(name: bytes) -> Changes:
    """Return the change that takes the header `name` away."""
    return encode_field(_REMOVE_HEADERS, name.decode("latin-1").encode())


def _by_name(headers: Headers) -> dict[bytes, list[bytes]]:
    names: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        names.setdefault(name, []).append(value)
    return names


CONTINUE_HEADERS = serialize_message(
    ProcessingResponse(request_headers=HeadersResponse(response=CommonResponse()))
)
"""Continues with the request's body."""

CONTINUE_RESPONSE_HEADERS = serialize_message(
    ProcessingResponse(response_headers=HeadersResponse(response=CommonResponse()))
)
"""Lets the reply's head go on as it is."""

BUFFER_BODY = serialize_message(
    ProcessingResponse(
        response_headers=HeadersResponse(response=CommonResponse()),
        mode_override=ProcessingMode(response_body_mode=ProcessingMode.BUFFERED),
    )
)
"""Holds the answer's head back until its complete body has come."""


def pass_through(changes: Changes, *, clear_route_cache: bool) -> bytes:
    """Let a request that is none of ours pass, with `changes` of its headers: Envoy asks nothing more."""
    mode = ProcessingMode(
        request_body_mode=ProcessingMode.NONE,
        response_header_mode=ProcessingMode.SKIP,
        response_body_mode=ProcessingMode.NONE,
    )
    common = CommonResponse(
        header_mutation=HeaderMutation.FromString(changes), clear_route_cache=clear_route_cache
    )
    response = HeadersResponse(response=common)
    return serialize_message(ProcessingResponse(request_headers=response, mode_override=mode))


_REQUEST_BODY = field_tag(ProcessingResponse, "request_body")
_RESPONSE_HEADERS = field_tag(ProcessingResponse, "response_headers")
_RESPONSE_BODY = field_tag(ProcessingResponse, "response_body")
_OF_HEADERS = field_tag(HeadersResponse, "response")
_OF_BODY = field_tag(BodyResponse, "response")
_HEADER_MUTATION = field_tag(CommonResponse, "header_mutation")
_BODY_MUTATION = field_tag(CommonResponse, "body_mutation")
_BODY = field_tag(BodyMutation, "body")
_CLEAR_BODY = serialize_message(BodyMutation(clear_body=True))
_CLEAR_ROUTE_CACHE = serialize_message(CommonResponse(clear_route_cache=True))
_MODES = {
    mode: serialize_message(ProcessingResponse(mode_override=ProcessingMode(response_body_mode=mode)))
    for mode in (ProcessingMode.STREAMED, ProcessingMode.NONE)
}


def continue_request(changes: Changes, body: bytes | None, *, clear_route_cache: bool) -> bytes:
    """Let the request go on, with `changes` of its headers and with `body` where it is another."""
    common = encode_field(_HEADER_MUTATION, changes)
    if body is not None:
        common += encode_field(_BODY_MUTATION, _body_mutation(body))
    if clear_route_cache:
        common += _CLEAR_ROUTE_CACHE
    return encode_field(_REQUEST_BODY, encode_field(_OF_BODY, common))


def continue_response_headers(changes: Changes, *, has_body: bool) -> bytes:
    """Let the reply's head go on with `changes`; its body, if it has one, is to come in pieces."""
    common = encode_field(_HEADER_MUTATION, changes)
    mode = _MODES[ProcessingMode.STREAMED if has_body else ProcessingMode.NONE]
    return encode_field(_RESPONSE_HEADERS, encode_field(_OF_HEADERS, common)) + mode


def continue_response_body(body: bytes | None, changes: Changes | None = None) -> bytes:
    """Replace a frame of the reply by `body`; None: it stays as it is."""
    common = b"" if changes is None else encode_field(_HEADER_MUTATION, changes)
    if body is not None:
        common += encode_field(_BODY_MUTATION, _body_mutation(body))
    return encode_field(_RESPONSE_BODY, encode_field(_OF_BODY, common))


def continue_trailers(request: bool) -> bytes:
    """Trailers, of the request or of the answer, are left as they are."""
    if request:
        return serialize_message(ProcessingResponse(request_trailers=TrailersResponse()))
    return serialize_message(ProcessingResponse(response_trailers=TrailersResponse()))


def immediate_response(status: int, headers: Headers, body: bytes) -> bytes:
    """Build the whole reply of this `status`, in place of any other. Envoy asks nothing more."""
    if status not in _KNOWN_STATUSES:  # which Envoy refuses
        status = status // 100 * 100 if 200 <= status < 600 else 500
    return serialize_message(
        ProcessingResponse(
            immediate_response=ImmediateResponse(
                status=HttpStatus(code=status),
                headers=HeaderMutation.FromString(header_mutation(headers)),
                body=body,
                details="radixway",
            )
        )
    )


def _body_mutation(body: bytes) -> bytes:
    return encode_field(_BODY, body) if body else _CLEAR_BODY


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


@dataclass(slots=True)
class RequestHead:
    """The head of a request."""

    method: str
    target: str
    """Path and query as they came."""
    headers: list[Header]
    """Without pseudo headers, names in lower case."""

    @classmethod
    def from_envoy(cls, raw: list[Header]) -> RequestHead:
        """Parse the `raw` headers of Envoy."""
        pseudo: dict[bytes, bytes] = {}
        rest: list[Header] = []
        has_host = False
        for header in raw:
            name = header[0]
            if name[:1] == b":":
                pseudo[name] = header[1]
                continue
            has_host = has_host or name == b"host"
            rest.append(header)
        if not has_host and b":authority" in pseudo:
            rest.append((b"host", pseudo[b":authority"]))
        method = pseudo.get(b":method", b"GET").decode("latin-1")
        return cls(method, pseudo.get(b":path", b"/").decode("latin-1"), rest)

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
    headers: list[Header] = []
    passed = b""
    has_model = False
    for header in request.headers:
        name = header[0]
        if name == b"via":
            passed += header[1] + b", "
            continue
        has_model = has_model or name == MODEL
        headers.append(header)
    if request.routing.resolved_model and not has_model:
        headers.append((MODEL, request.routing.resolved_model.encode("utf-8", "replace")))
    headers += (
        (DESTINATION, destination.encode("ascii")),
        _JSON,
        (b"x-request-id", request.id.encode("ascii")),
        _IDENTITY,
        (b"via", passed + via),
    )
    if request.journal.trace is not None:
        headers += request.journal.trace.propagation_headers(len(request.routing.attempted_workers))
    if api_key is not None:
        headers.append((b"authorization", b"Bearer " + api_key.encode()))
    target = base_path + request.path
    if target != head.target:
        headers.append((b":path", target.encode("latin-1")))
    given = dict(head.headers)
    for name, _ in headers:
        given.pop(name, None)
    return headers, [name for name in given if name not in _ENVOYS and name[:8] != b"x-envoy-"]


_JSON: Header = (b"content-type", b"application/json")
_IDENTITY: Header = (b"accept-encoding", b"identity")
"""A compressed answer could not be parsed."""


def split_response_headers(raw: list[Header]) -> tuple[int, list[Header], list[bytes]]:
    """Split `raw` into status, the headers that reach the client, and the names of the others."""
    status = 502
    rest: list[Header] = []
    for header in raw:
        if header[0][:1] != b":":
            rest.append(header)
        elif header[0] == b":status":
            status = int(header[1])
    headers = filter_reply_headers(rest)
    if len(headers) == len(rest):
        return status, headers, []
    gone = dict(rest).keys() - dict(headers).keys() - _FRAMED_BY_ENVOY
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
