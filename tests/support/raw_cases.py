"""Requests as bytes, and what a gateway does with them: the same on every path and behind every server.

In the bytes `<path>` stands for the path asked, `<line>` for `POST <path>`, `<body>` for a body that the path
takes, `<length>` for its length, `<size>` for that in hexadecimal, `<chunks>` for the body in chunks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from support.raw_http import RawAnswer, ThreadedGateway

HOT = "/v1/chat/completions"
"""A declared endpoint."""
COLD = "/tokenize"
"""No declared endpoint, but its requests reach the worker, too, and its answers the client."""
HEALTH = b"GET /health HTTP/1.1\r\nhost: a\r\n\r\n"
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()

HEAD = b"<line> HTTP/1.1\r\nhost: a\r\n"
LENGTH = b"content-length: <length>\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
REST = LENGTH + b"\r\n<body>"
"""The end of a head, and the body."""


@dataclass(frozen=True)
class Outcome:
    """The statuses that come back, whether the connection is open then, the requests that a worker got."""

    statuses: tuple[int, ...]
    is_kept: bool
    seen: int


SERVED = Outcome((200,), True, 1)
SERVED_LAST = Outcome((200,), False, 1)
REFUSED = Outcome((400,), False, 0)
HEAD_TOO_LARGE = Outcome((431,), False, 0)
NOT_FOUND = Outcome((404,), True, 0)
NOT_ALLOWED = Outcome((405,), True, 0)

Cases = Mapping[str, tuple[Outcome, bytes]]

_CHANGING_HEADERS = ("date", "x-request-id", "x-radixway-worker")
_CHANGING_TEXTS = re.compile(rb"[0-9a-f]{32}|127\.0\.0\.1:[0-9]+")
_LAGS = re.compile(rb'(?<="lag_..._ms":)[0-9.]+')
"""How late the event loop was, in `/health`."""


def raw_request(template: bytes, path: str, body: bytes = BODY) -> bytes:
    """Return the bytes that `template` stands for."""
    half = len(body) // 2
    chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (body[:half], body[half:]))
    raw = template.replace(b"<line>", b"POST <path>").replace(b"<path>", path.encode())
    raw = raw.replace(b"<chunks>", chunks + b"0\r\n\r\n").replace(b"<length>", b"%d" % len(body))
    return raw.replace(b"<size>", b"%x" % len(body)).replace(b"<body>", body)


def chat_body(said: str, **fields: object) -> bytes:
    """Return a body by which the worker is told to say `said`."""
    return json.dumps({"model": "m", "messages": [{"role": "user", "content": said}], **fields}).encode()


def chat_request(path: str, said: str, headers: bytes = b"", **fields: object) -> bytes:
    """Return a request of `chat_body` with these `headers` more."""
    return raw_request(HEAD + headers + REST, path, chat_body(said, **fields))


def comparable(answer: RawAnswer) -> tuple[int, list[tuple[str, str]], bytes]:
    """Return what of `answer` is the same for each request: not the date, ids, ports or times."""
    headers = {name: value for name, value in answer.headers.items() if name not in _CHANGING_HEADERS}
    headers |= {name: "" for name in _CHANGING_HEADERS if name in answer.headers}
    body, lags = _LAGS.subn(b"", answer.body)
    if lags:
        del headers["content-length"]  # by which the body was read; the times are of several lengths
    return answer.status, sorted(headers.items()), _CHANGING_TEXTS.sub(b"", body)


def check_case(servers: Mapping[str, ThreadedGateway], path: str, case: tuple[Outcome, bytes]) -> None:
    """Send the request of `case` for `path` to each of `servers`; all do as it says, with equal answers."""
    wanted, template = case
    raw = raw_request(template, path)
    method = raw[:5].split(b" ")[0].decode("latin-1")
    found = []
    for name, server in servers.items():
        client = server.connect()
        client.send(raw)
        answers = [client.answer(method) for _ in wanted.statuses]
        assert tuple(answer.status for answer in answers) == wanted.statuses, name
        assert client.is_kept() == wanted.is_kept, name
        seen = server.take_seen()
        assert [body for _, _, body in seen] == [BODY] * wanted.seen, name
        assert not server.errors, name
        found.append([comparable(answer) for answer in answers] + [where for _, where, _ in seen])
    assert all(each == found[0] for each in found)
