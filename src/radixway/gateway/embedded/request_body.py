"""Bodies and headers of calls. What cannot be sent is refused as a gateway would, by field."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from radixway.gateway.embedded.answer import RadixwayError

Messages = str | Iterable[Mapping[str, Any]]


def make_chat_body(messages: Messages, model: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a chat completion; `messages` may be one text."""
    said: Any = messages
    if isinstance(messages, str):
        said = [{"role": "user", "content": messages}]
    elif isinstance(messages, Iterable) and not isinstance(messages, Mapping | bytes):
        said = list(messages)
    return {"model": model, "messages": said, **fields}


def without_stream(body: dict[str, Any]) -> dict[str, Any]:
    """A body whose answer is wanted in one. Raises RadixwayError for one that asks for a stream."""
    if body.get("stream"):
        raise _request_error(
            "stream", "an answer in one is no stream: the calls that begin with stream_ give one"
        )
    return body


def encode_body(body: Any) -> bytes:
    """Return `body` as JSON, unless it is bytes. Raises RadixwayError, naming the field that is no JSON."""
    if body is None:
        return b""
    if isinstance(body, bytes | bytearray | memoryview):
        return bytes(body)
    try:
        return msgspec.json.encode(body)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise _request_error(_find_bad_field(body), f"cannot be written as JSON: {error}") from None


def merge_headers(*given: Mapping[str, str] | None) -> dict[str, str]:
    """All of these, later ones first in force. Raises RadixwayError for what no client could send."""
    every: dict[str, str] = {}
    for headers in given:
        if not isinstance(headers, Mapping | None):
            raise _request_error(
                "headers", f"must be a mapping of names to texts, not {type(headers).__name__}"
            )
        for name, value in (headers or {}).items():
            if (
                not (_is_encodable(name, "ascii") and _is_encodable(value, "latin-1"))
                or not name
                or " " in name
            ):
                raise _request_error(f"headers.{name}", "a header is text of one line, its name in ASCII")
            every[name.lower()] = value
    return every


def _is_encodable(text: object, encoding: str) -> bool:
    if not isinstance(text, str) or any(character in text for character in "\r\n\0"):
        return False
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _find_bad_field(body: Any) -> str | None:
    for name, value in body.items() if isinstance(body, dict) else ():
        try:
            msgspec.json.encode({name: value})
        except (TypeError, ValueError, RecursionError, OverflowError):
            return str(name)
    return None


def _request_error(field: str | None, what: str) -> RadixwayError:
    message = what if field is None else f"{field}: {what}"
    return RadixwayError(message, status=400, code="invalid_value", field=field)


def trace_headers() -> dict[str, str]:
    """Return the program's current span, where it uses OpenTelemetry: the request joins its trace."""
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers)
    return headers
