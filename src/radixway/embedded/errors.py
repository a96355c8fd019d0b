"""What a call raises in place of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

_UNSAID = "the request was refused"
_BROKEN_STREAM = 502


class RadixwayError(Exception):
    """A request that got no answer; the message is what a client over HTTP would have read."""

    def __init__(
        self,
        message: str,
        *,
        status: int,
        code: str | None = None,
        field: str | None = None,
        retry_after_s: int | None = None,
        request_id: str | None = None,
        body: bytes = b"",
    ) -> None:
        super().__init__(message)
        self.status = status
        """As over HTTP. A stream that has begun had said 200; what ends it is 502."""
        self.code = code
        """For programs: `model_not_found`, `queue_full` …"""
        self.field = field
        """The request's field at fault, when one is: `messages[0].content`."""
        self.retry_after_s = retry_after_s
        """When it makes sense to try again, when it does."""
        self.request_id = request_id
        """For `explain`."""
        self.body = body
        """All that was said, as it was: a worker may have its own words."""


def error_from_answer(status: int, headers: Mapping[str, str], body: bytes) -> RadixwayError:
    """What an answer says that is none: in OpenAI's shape, Anthropic's, the classification API's, or none."""
    said = _error_fields(body)
    after = headers.get("retry-after", "")
    return RadixwayError(
        _text_field(said, "message") or body[:200].decode("utf-8", "replace").strip() or _UNSAID,
        status=status,
        code=_text_field(said, "code") or _text_field(said, "type"),
        field=_text_field(said, "param"),
        retry_after_s=int(after) if after.isdigit() else None,
        request_id=headers.get("x-request-id"),
        body=body,
    )


def error_from_event(event: bytes, request_id: str | None) -> RadixwayError | None:
    """What an event says that ends a stream before its time; None if it is none."""
    said = _error_fields(event) if b'"error"' in event else {}
    message = _text_field(said, "message")
    if message is None:
        return None
    return RadixwayError(
        message,
        status=_BROKEN_STREAM,
        code=_text_field(said, "code"),
        field=_text_field(said, "param"),
        request_id=request_id,
        body=event,
    )


def _error_fields(body: bytes) -> dict[str, Any]:
    try:
        told = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    inner = told.get("error", told) if isinstance(told, dict) else None
    return inner if isinstance(inner, dict) else {}


def _text_field(said: Mapping[str, Any], name: str) -> str | None:
    value = said.get(name)
    return value if isinstance(value, str) and value else None
