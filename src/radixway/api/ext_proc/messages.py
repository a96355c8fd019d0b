"""Replies to Envoy, as messages of `envoy.service.ext_proc.v3`.

Header values are given as `raw_value` alone: Envoy refuses a header that has `value` too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

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

Headers = Sequence[tuple[bytes, bytes]]
Changes: TypeAlias = HeaderMutation

_KNOWN_STATUSES = frozenset(StatusCode.values())
_REPLACE = HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
_APPEND = HeaderValueOption.APPEND_IF_EXISTS_OR_ADD
_FRAMING = frozenset({b"content-length", b"transfer-encoding"})


def decode_headers(headers: HeaderMap) -> list[tuple[bytes, bytes]]:
    """Decode Envoy's `headers`, pseudo headers among them, in order."""
    return [(each.key.encode(), each.raw_value or each.value.encode()) for each in headers.headers]


def header_mutation(wanted: Headers, present: Headers = (), *, removed: Iterable[bytes] = ()) -> Changes:
    """Build the change from `present` to `wanted`; names not wanted stay, unless they are among `removed`."""
    had = _by_name(present)
    changed = [
        HeaderValueOption(
            header=HeaderValue(key=name.decode("latin-1"), raw_value=value),
            append_action=_APPEND if at else _REPLACE,
        )
        for name, values in _by_name(wanted).items()
        if name not in _FRAMING and had.get(name) != values
        for at, value in enumerate(values)
    ]
    gone = [name.decode("latin-1") for name in removed]
    return HeaderMutation(set_headers=changed, remove_headers=gone)


def _by_name(headers: Headers) -> dict[bytes, list[bytes]]:
    names: dict[bytes, list[bytes]] = {}
    for name, value in headers:
        names.setdefault(name, []).append(value)
    return names


GO_ON = ProcessingResponse(request_headers=HeadersResponse(response=CommonResponse()))
"""The request's head is noted; now its body."""

SHOW_WHOLE = ProcessingResponse(
    response_headers=HeadersResponse(response=CommonResponse()),
    mode_override=ProcessingMode(response_body_mode=ProcessingMode.BUFFERED),
)
"""The answer's head waits for the body, which is to come whole."""


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
