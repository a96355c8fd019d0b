"""Which session a request belongs to, by its headers and its body."""

import json

import pytest
from pydantic import ValidationError

from radixway.core.config import RoutingConfig
from radixway.core.pipeline import ENDPOINTS, Request
from radixway.core.telemetry import Journal
from radixway.routing import PromptReader, RoutingRequest, Selector, TokenizerRegistry


def session_of(given=(), body=None, **session):
    config = RoutingConfig(policy="session", session=session)
    reader = PromptReader(config, TokenizerRegistry(config))
    request = Request(
        id="r",
        endpoint=ENDPOINTS["openai.chat"],
        path="/",
        journal=Journal("r"),
        raw=json.dumps(body or {}).encode(),
        headers=tuple((name.encode(), value.encode()) for name, value in given),
    )
    prompt = reader.read_prompt(request, Selector(config).policy_for_model(None), ())
    reader.shutdown_threads()
    assert isinstance(prompt, RoutingRequest)
    return prompt.session


def test_a_header_goes_before_fields_and_fields_go_in_order():
    body = {"user": "u", "session_id": "s"}
    assert session_of([("x-session-id", "h")], body) == "h"
    assert session_of([], body) == "s"
    assert session_of([], {"user": "u"}) == "u"
    assert session_of() is None


def test_fields_go_before_headers_where_they_shall():
    key, rid = [("x-smg-routing-key", "k")], {"rid": "r"}
    assert session_of(key, rid, fields=["rid"], fields_first=True) == "r"
    assert session_of(key, {}, fields=["rid"], fields_first=True) == "k"
    assert session_of(key, rid, fields=["rid"]) == "k"


def test_of_several_headers_the_one_configured_first_counts_however_it_is_spelt():
    headers = [("x-session-id", "b"), ("x-dynamo-session-id", "a")]
    assert session_of(headers, headers=["X-Dynamo-Session-ID", "x-session-id"]) == "a"


def test_what_is_empty_or_no_text_names_no_session():
    assert session_of([("x-session-id", "")], {"session_id": "", "user": "u"}) == "u"
    assert session_of([], {"session_id": 7, "user": ["u"]}) is None


def test_a_header_that_would_never_be_seen_is_refused():
    with pytest.raises(ValidationError, match="must begin with x-"):
        RoutingConfig(session={"headers": ["session-id"]})
