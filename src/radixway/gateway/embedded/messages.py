"""Bodies and headers of calls, their answers, and the error that calls raise.

What cannot be sent is refused as a gateway would, by field.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

_DEFAULT_MESSAGE = "the request was refused"
_BROKEN_STREAM_STATUS = 502

Messages = str | Iterable[Mapping[str, Any]]


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
        """HTTP's status; 502 for an error within a stream, which began with 200."""
        self.code = code
        """Code for programs: `model_not_found`, `queue_full` …"""
        self.field = field
        """The request's field at fault, when one is: `messages[0].content`."""
        self.retry_after_s = retry_after_s
        """Seconds after which to try again, if that makes sense."""
        self.request_id = request_id
        """Id for `explain`."""
        self.body = body
        """The whole error body: a worker may add fields of its own."""


def error_from_answer(status: int, headers: Mapping[str, str], body: bytes) -> RadixwayError:
    """Return the error in `body`: OpenAI's shape, Anthropic's, the classification API's, or none."""
    fields = _error_fields(body)
    after = headers.get("retry-after", "")
    return RadixwayError(
        _text_field(fields, "message") or body[:200].decode("utf-8", "replace").strip() or _DEFAULT_MESSAGE,
        status=status,
        code=_text_field(fields, "code") or _text_field(fields, "type"),
        field=_text_field(fields, "param"),
        retry_after_s=int(after) if after.isdigit() else None,
        request_id=headers.get("x-request-id"),
        body=body,
    )


def error_from_event(event: bytes, request_id: str | None) -> RadixwayError | None:
    """Return the error of an event that ends a stream early; None for all other events."""
    fields = _error_fields(event) if b'"error"' in event else {}
    message = _text_field(fields, "message")
    if message is None:
        return None
    return RadixwayError(
        message,
        status=_BROKEN_STREAM_STATUS,
        code=_text_field(fields, "code"),
        field=_text_field(fields, "param"),
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


def _text_field(fields: Mapping[str, Any], name: str) -> str | None:
    value = fields.get(name)
    return value if isinstance(value, str) and value else None


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer."""

    status: int
    headers: Mapping[str, str]
    """Names in lower case; of several with one name, the last."""
    body: bytes
    """Body as the worker wrote it."""

    @property
    def request_id(self) -> str:
        """Return the id that `explain` takes."""
        return self.headers.get("x-request-id", "")

    @property
    def worker(self) -> str:
        """Return the worker that answered; empty where none was asked."""
        return self.headers.get("x-radixway-worker", "")

    def json(self) -> Any:
        """Return the body, decoded. Raises ValueError where it is no JSON."""
        return msgspec.json.decode(self.body)

    @property
    def text(self) -> str:
        """Return the model's text: the first choice of a chat or a completion, or the text of `generate`."""
        return answer_text(self.json())


def answer_text(tree: Any) -> str:
    """Return the text in `tree`, an answer or an event; an event of `generate` has all text so far."""
    if isinstance(tree, list):
        tree = tree[0] if tree else None
    if not isinstance(tree, dict):
        return ""
    choices = tree.get("choices")
    if not isinstance(choices, list):
        text = tree.get("text")
    else:
        found = (choice for choice in choices if isinstance(choice, dict) and not choice.get("index"))
        first = next(found, {})
        message = first.get("message") or first.get("delta")
        text = message.get("content") if isinstance(message, dict) else first.get("text")
    return text if isinstance(text, str) else ""


def make_chat_body(messages: Messages, model: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a chat completion; `messages` may be one text."""
    thread: Any = messages
    if isinstance(messages, str):
        thread = [{"role": "user", "content": messages}]
    elif isinstance(messages, Iterable) and not isinstance(messages, Mapping | bytes):
        thread = list(messages)
    return {"model": model, "messages": thread, **fields}


def without_stream(body: dict[str, Any]) -> dict[str, Any]:
    """Return `body`, whose answer is wanted in one. Raises RadixwayError if it asks for a stream."""
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
    """Return all `given` headers; later ones replace earlier ones. Raises RadixwayError for invalid ones."""
    every: dict[str, str] = {}
    for headers in given:
        if not isinstance(headers, Mapping | None):
            raise _request_error(
                "headers", f"must be a mapping of names to texts, not {type(headers).__name__}"
            )
        for name, value in (headers or {}).items():
            is_valid = _is_encodable(name, "ascii") and _is_encodable(value, "latin-1")
            if not is_valid or not name or " " in name:
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
