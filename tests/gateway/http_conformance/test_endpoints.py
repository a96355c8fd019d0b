"""Every declared endpoint: answers, streams and refusals are the same however it is served."""

from __future__ import annotations

import json

import pytest

from radixway.core.pipeline import ENDPOINTS
from support.raw_cases import COLD, HEAD, HOT, REST, chat_body, chat_request, comparable, raw_request

PATHS = sorted(ENDPOINTS.served_directly())
FIELDS = {
    "model": "m",
    "messages": [{"role": "user", "content": "hello"}],
    "prompt": "hello",
    "text": "hello",
    "input": "hello",
    "query": "hello",
    "documents": ["one"],
    "text_1": "hello",
    "text_2": "hello",
}
BODIES = {
    "all fields": json.dumps(FIELDS).encode(),
    "no fields": b"{}",
    "no object": b"[]",
    "no JSON": b"{",
    "nothing": b"",
    "unknown model": json.dumps(FIELDS | {"model": "unknown"}).encode(),
    "wrong types": json.dumps({name: {"a": [1]} for name in FIELDS}).encode(),
    "not UTF-8": b'{"model": "\xff"}',
    "large": json.dumps(FIELDS | {"prompt": "x" * 40_000, "text": "x" * 40_000}).encode(),
}


def asked(servers, raw, method="POST"):
    """What each server answers, and what its worker then has seen."""
    found = []
    for server in servers.values():
        client = server.connect()
        client.send(raw)
        answer = comparable(client.answer(method))
        kept = client.is_kept()
        found.append((answer, kept, server.take_seen()))
    return found


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", BODIES)
def test_a_body_is_answered_the_same_by_each_server(servers, path, name):
    first, second = asked(servers, raw_request(HEAD + REST, path, BODIES[name]))
    assert first == second
    (status, _, _), is_kept, seen = first
    assert is_kept
    if name in ("all fields", "large"):
        assert (status, len(seen)) == (200, 1)
    else:
        assert 400 <= status < 500 and seen == []


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("method", ["GET", "HEAD", "DELETE", "OPTIONS"])
def test_a_method_is_refused_the_same_by_each_server(servers, path, method):
    first, second = asked(servers, f"{method} {path} HTTP/1.1\r\nhost: a\r\n\r\n".encode(), method)
    assert first == second
    (status, headers, _), is_kept, seen = first
    assert (status, is_kept, seen) == (405, True, [])
    assert dict(headers)["allow"] == ", ".join(ENDPOINTS.served_directly()[path].methods)


@pytest.mark.parametrize("path", [path for path in PATHS if ENDPOINTS.served_directly()[path].streams])
def test_each_kind_of_stream_is_the_same_from_each_server(servers, path):
    body = json.dumps(FIELDS | {"stream": True}).encode()
    first, second = asked(servers, raw_request(HEAD + REST, path, body))
    assert first == second
    (status, _, answer), is_kept, seen = first
    assert (status, is_kept, len(seen)) == (200, True, 1)
    assert answer.endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("said", ["a", "a longer one", "break", "x" * 5000])
def test_a_stream_is_the_same_from_each_server(servers, said):
    first, second = asked(servers, chat_request(HOT, said, stream=True))
    assert first == second
    (status, headers, body), is_kept, seen = first
    assert (status, is_kept) == (200, True)
    assert ("transfer-encoding", "chunked") in headers
    assert seen == [("POST", HOT, chat_body(said, stream=True))]
    assert (b"[DONE]" in body) == (said != "break")


@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_a_stream_ends_with_its_connection_if_it_must(servers, version):
    found = []
    for server in servers.values():
        raw = chat_request(HOT, "hello", b"connection: close\r\n", stream=True)
        client = server.connect()
        client.send(raw.replace(b"HTTP/1.1", b"HTTP/" + version.encode()))
        answer = client.rest()
        assert b"[DONE]" in answer
        found.append(answer[answer.index(b"\r\n\r\n") :])
    assert found[0] == found[1]


def test_an_answer_has_the_id_of_its_request(server):
    client = server.connect()
    for path in (HOT, "/generate"):
        client.send(raw_request(HEAD + b"x-request-id: an-id-of-mine\r\n" + REST, path, BODIES["all fields"]))
        assert client.answer().headers["x-request-id"] == "an-id-of-mine"
        assert server.worker.requests[-1].headers["x-request-id"] == "an-id-of-mine"
    ids = set()
    for _ in range(3):
        client.send(chat_request(HOT, "hello"))
        ids.add(client.answer().headers["x-request-id"])
    assert len(ids) == 3


def test_a_request_can_be_explained_after_its_answer(server):
    client = server.connect()
    client.send(chat_request(HOT, "hello"))
    request_id = client.answer().headers["x-request-id"]
    client.send(f"GET /explain/{request_id} HTTP/1.1\r\nhost: a\r\n\r\n".encode())
    explained = client.answer("GET")
    assert explained.status == 200
    assert request_id in explained.body.decode()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [HOT, COLD])
def test_a_reply_without_content_ends_with_its_head(server, path, stream):
    client = server.connect()
    client.send(chat_request(path, "no content", stream=stream))
    answer = client.answer()
    assert answer.status == 204
    assert not {"content-length", "transfer-encoding"} & answer.headers.keys()
    assert client.is_kept()
