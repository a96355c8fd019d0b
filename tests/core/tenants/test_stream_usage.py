"""What is taken out of a stream whose usage the client did not ask for, and what is not."""

from __future__ import annotations

import pytest

from radixway.core.tenants.stream_usage import strip_usage

TEXT = b'data: {"id": "1",  "choices":[{"delta":{"content":"a"}}]}\n\n'
USAGE = b'data: {"id":"1","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}\n\n'
DONE = b"data: [DONE]\n\n"


def test_an_event_of_usage_alone_goes_and_the_others_keep_their_bytes():
    assert strip_usage(TEXT + USAGE + DONE) == TEXT + DONE
    assert strip_usage(USAGE) == b""
    assert strip_usage(USAGE.replace(b"\n", b"\r\n") + DONE) == DONE


@pytest.mark.parametrize(
    ("sent", "left"),
    [
        (
            b'data: {"choices":[{"delta":{"content":"a"}}],"usage":null}\n\n',
            b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n',
        ),
        (
            b'data: {"usage": null, "choices":[{"delta":{"content":"a"}}]}\n\n',
            b'data: { "choices":[{"delta":{"content":"a"}}]}\n\n',
        ),
    ],
)
def test_the_null_that_asking_adds_goes_too(sent, left):
    assert strip_usage(sent) == left


@pytest.mark.parametrize(
    "event",
    [
        TEXT,
        DONE,
        b": a comment\n\n",
        b'data: {"choices":[{"delta":{"content":"the \\"usage\\":null, of it"}}]}\n\n',
        b'data: {"choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":1}}\n\n',
        b'data: {"usage": broken\n\n',
    ],
)
def test_what_is_not_added_by_asking_stays(event):
    assert strip_usage(event) == event
