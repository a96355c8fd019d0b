"""Replies joined by hand are, byte for byte read again, what the protocol's own messages say."""

import pytest

pytest.importorskip("grpc")

from envoy.config.core.v3.base_pb2 import HeaderValue, HeaderValueOption
from envoy.extensions.filters.http.ext_proc.v3.processing_mode_pb2 import ProcessingMode
from envoy.service.ext_proc.v3.external_processor_pb2 import (
    BodyMutation,
    BodyResponse,
    CommonResponse,
    HeaderMutation,
    HeadersResponse,
    HttpBody,
    ProcessingResponse,
)

from radixway.api.ext_proc import messages
from radixway.api.ext_proc.wire_format import encode_field, field_tag

REPLACE = HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
APPEND = HeaderValueOption.APPEND_IF_EXISTS_OR_ADD


def option(name, value, action=REPLACE):
    return HeaderValueOption(header=HeaderValue(key=name, raw_value=value), append_action=action)


@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 16_383, 16_384, 2**21 - 1, 2**21])
def test_lengths_of_any_size_are_read_again(size):
    body = bytes(size)
    assert HttpBody.FromString(encode_field(field_tag(HttpBody, "body"), body)).body == body


def test_only_what_differs_is_set_and_a_further_value_stands_beside_the_first():
    present = [(b"a", b"1"), (b"b", b"2"), (b"content-length", b"9")]
    wanted = [(b"a", b"1"), (b"b", b"3"), (b"content-length", b"8"), (b"caf\xe9", b"\xff" * 200)]
    changes = messages.header_mutation(wanted, present, removed=[b"gone"])
    assert HeaderMutation.FromString(changes) == HeaderMutation(
        set_headers=[option("b", b"3"), option("café", b"\xff" * 200)], remove_headers=["gone"]
    )
    twice = messages.header_mutation([*wanted, (b"b", b"4"), (b"a", b"1")], present)
    assert HeaderMutation.FromString(twice).set_headers == [
        option("a", b"1"),
        option("a", b"1", APPEND),
        option("b", b"3"),
        option("b", b"4", APPEND),
        option("café", b"\xff" * 200),
    ]


@pytest.mark.parametrize("clears", [True, False])
@pytest.mark.parametrize(
    ("body", "mutation"),
    [
        (None, None),
        (b"", BodyMutation(clear_body=True)),
        (b"x" * 300, BodyMutation(body=b"x" * 300)),
    ],
)
def test_replies_are_those_of_the_protocols_own_messages(body, mutation, clears):
    changes = messages.header_mutation([(b"a", b"1")])
    told = HeaderMutation(set_headers=[option("a", b"1")])
    common = CommonResponse(header_mutation=told, body_mutation=mutation, clear_route_cache=clears)
    continued = messages.continue_request(changes, body, clear_route_cache=clears)
    assert ProcessingResponse.FromString(continued) == ProcessingResponse(
        request_body=BodyResponse(response=common)
    )
    common = CommonResponse(body_mutation=mutation)
    assert ProcessingResponse.FromString(messages.continue_response_body(body)) == ProcessingResponse(
        response_body=BodyResponse(response=common)
    )
    common = CommonResponse(header_mutation=told, body_mutation=mutation)
    released = messages.continue_response_body(body, changes)
    assert ProcessingResponse.FromString(released) == ProcessingResponse(
        response_body=BodyResponse(response=common)
    )


@pytest.mark.parametrize(
    ("has_body", "mode"), [(True, ProcessingMode.STREAMED), (False, ProcessingMode.NONE)]
)
def test_a_head_goes_on_with_the_mode_of_its_body(has_body, mode):
    head = messages.continue_response_headers(messages.remove_header(b"via"), has_body=has_body)
    common = CommonResponse(header_mutation=HeaderMutation(remove_headers=["via"]))
    assert ProcessingResponse.FromString(head) == ProcessingResponse(
        response_headers=HeadersResponse(response=common),
        mode_override=ProcessingMode(response_body_mode=mode),
    )
