"""Fields are set in a body without touching the others."""

import json

import pytest

from radixway.core.pipeline import ENDPOINTS, Request
from radixway.core.telemetry import Journal


def request(raw: bytes) -> Request:
    return Request(id="r", endpoint=ENDPOINTS["generate"], path="/generate", journal=Journal("r"), raw=raw)


def test_a_new_field_is_put_before_the_others_which_keep_their_bytes():
    asked = request(b'{ "text": "a",  "x": 1.50 }')
    assert asked.body["text"] == "a"
    asked.add_field("rid", 'me "1"')
    assert asked.raw.endswith(b' "text": "a",  "x": 1.50 }')
    assert asked.body == {"rid": 'me "1"', "text": "a", "x": 1.5}


@pytest.mark.parametrize("raw", [b'{"text": "", "rid": null}', b' {"text": "a \\"rid\\""}', b"{}", b" { } "])
def test_a_field_is_set_once_wherever_it_was(raw: bytes):
    asked = request(raw)
    asked.add_field("rid", "mine")
    pairs = json.loads(asked.raw, object_pairs_hook=list)
    assert [name for name, _ in pairs].count("rid") == 1
    assert dict(pairs) == json.loads(raw) | {"rid": "mine"}
