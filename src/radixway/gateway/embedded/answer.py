"""Answers of calls, and the error that calls raise.

Answers as Python reads them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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
    """Return the error in `body`: OpenAI's shape, Anthropic's, the classification API's, or none."""
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
    """Return the error of an event that ends a stream early; None for all other events."""
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
        tree = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    inner = tree.get("error", tree) if isinstance(tree, dict) else None
    return inner if isinstance(inner, dict) else {}


def _text_field(said: Mapping[str, Any], name: str) -> str | None:
    value = said.get(name)
    return value if isinstance(value, str) and value else None


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case; of several with one name, the last."""
    body: bytes
    """As the worker wrote it."""

    @property
    def request_id(self) -> str:
        """For `explain`."""
        return self.headers.get("x-request-id", "")

    @property
    def worker(self) -> str:
        """The worker that answered; empty where none was asked."""
        return self.headers.get("x-radixway-worker", "")

    def json(self) -> Any:
        """The body. Raises ValueError where it is no JSON."""
        return msgspec.json.decode(self.body)

    @property
    def text(self) -> str:
        """The model's text: the first choice of a chat or a completion, or the text of `generate`."""
        return answer_text(self.json())


def answer_text(tree: Any) -> str:
    """Return the text in `tree`, an answer or an event; an event of `generate` has all text so far."""
    if isinstance(tree, list):
        tree = tree[0] if tree else None
    if not isinstance(tree, dict):
        return ""
    choices = tree.get("choices")
    if not isinstance(choices, list):
        said = tree.get("text")
    else:
        first = next((each for each in choices if isinstance(each, dict) and not each.get("index")), {})
        message = first.get("message") or first.get("delta")
        said = message.get("content") if isinstance(message, dict) else first.get("text")
    return said if isinstance(said, str) else ""
