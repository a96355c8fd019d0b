"""What a worker says of a response, as the parts of an answer."""

from __future__ import annotations

import json

import pytest

from radixway.api.chats.responses.completions import CompletionParser
from radixway.core.parsers import TextPart


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_events_are_heard_however_their_lines_end(end: bytes) -> None:
    hearing = CompletionParser()
    said = [{"choices": [{"delta": {"content": word}}]} for word in ("A ", "tree.")]
    events = [b"event: chunk" + end + b"data: " + json.dumps(each).encode() + end + end for each in said]
    assert hearing.parse_chunk(b"".join(events)) == [TextPart("A "), TextPart("tree.")]
    assert hearing.parse_chunk(b"data: [DONE]" + end + end) == []
