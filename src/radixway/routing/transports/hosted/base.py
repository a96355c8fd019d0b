"""The contract of a provider's API: a chat completion's body to a call, its answer to what is new in one."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from radixway.core.config import HostedWorkerSettings
from radixway.core.http.server_sent_events import EventBuffer
from radixway.core.pipeline import CHAT_COMPLETIONS, Request

Headers = list[tuple[bytes, bytes]]
Delta = dict[str, Any]
"""What is new in a message: `content`, `reasoning_content`, `tool_calls`, `thinking_blocks`."""
AnswerReader = Callable[[Any, Headers], dict[str, Any]]
"""Makes the client's answer of a provider's whole one and its headers. Raises as `ReplyReader.read_reply`."""
_MAX_COUNT = 10**12
_ERROR_FIELDS = frozenset({"error", "type", "request_id", "user_id"})
"""Fields of an answer that is an error alone."""


@dataclass(slots=True, frozen=True)
class ProviderCall:
    """A call as the provider takes it."""

    path: str
    """Path and query behind the worker's URL."""
    body: bytes
    headers: Headers = field(default_factory=list)
    content_type: bytes = b"application/json"
    read_answer: AnswerReader | None = None
    """For an answer that is no message."""


@dataclass(slots=True, frozen=True)
class ProviderRefusal:
    """An error of a provider, in the words of OpenAI's."""

    message: str
    type: str = "api_error"
    code: str | None = None
    param: str | None = None
    retry_after_s: float | None = None
    refuses_key: bool = False
    """The key is at fault, whatever the status."""
    body: bytes = b""
    """The provider's own, for a client that speaks its API."""


class StreamRefusedError(Exception):
    """An error that a provider tells in its stream."""

    def __init__(self, status: int, refusal: ProviderRefusal) -> None:
        super().__init__(refusal.message)
        self.status = status
        self.refusal = refusal


class ReplyReader(ABC):
    """Reads one answer, whole or event by event; a provider's own extends it."""

    def __init__(self) -> None:
        self.model = ""
        """The model that answered, by the provider's word."""
        self.finish_reason: str | None = None
        """OpenAI's; None while the answer goes on."""
        self.prompt_tokens = 0
        """Those read from the provider's cache and those written to it included."""
        self.completion_tokens = 0
        self.cached_tokens = 0
        self.cache_write_tokens = 0
        self.reasoning_tokens = 0
        self._call_count = 0

    @abstractmethod
    def read_reply(self, reply: Mapping[str, Any]) -> Iterator[Delta]:
        """Yield what a whole `reply` says. Raises KeyError, TypeError, ValueError, AttributeError."""

    @abstractmethod
    def read_event(self, event: Mapping[str, Any]) -> Iterator[Delta]:
        """Yield what an `event` of a stream adds. Raises StreamRefusedError, and as `read_reply`."""

    def usage(self) -> dict[str, Any]:
        """Return `usage` of the chat completion."""
        prompt: dict[str, Any] = {"cached_tokens": self.cached_tokens}
        if self.cache_write_tokens:
            prompt["cache_write_tokens"] = self.cache_write_tokens
        usage: dict[str, Any] = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.prompt_tokens + self.completion_tokens,
            "prompt_tokens_details": prompt,
        }
        if self.reasoning_tokens:
            usage["completion_tokens_details"] = {"reasoning_tokens": self.reasoning_tokens}
        return usage

    def begin_call(self, call_id: str, name: str, arguments: str = "") -> Delta:
        """Return the delta that begins the next tool call."""
        function = {"name": name, "arguments": arguments}
        call = {"index": self._call_count, "id": call_id, "type": "function", "function": function}
        self._call_count += 1
        return {"tool_calls": [call]}

    def continue_call(self, arguments: str) -> Delta:
        """Return the delta that adds `arguments` to the call begun last."""
        call = {"index": self._call_count - 1, "function": {"arguments": arguments}}
        return {"tool_calls": [call]}


class ProviderApi(ABC):
    """A provider's API. It has no state: one instance serves all its workers."""

    passed_paths: ClassVar[frozenset[str]] = frozenset()
    """Paths of endpoints whose requests pass as they are."""
    converted_paths: ClassVar[frozenset[str]] = frozenset({CHAT_COMPLETIONS.path})
    """Paths of those that are converted."""

    @abstractmethod
    def build_call(
        self, request: Request, settings: HostedWorkerSettings, model: str, key: str | None
    ) -> ProviderCall:
        """Return the call for `request`, of `model` as the provider names it.

        Raises BadRequest, CredentialMissingError.
        """

    @abstractmethod
    def create_reader(self) -> ReplyReader:
        """Create a reader of the answer to a chat completion."""

    def create_event_buffer(self) -> EventBuffer:
        """Create a buffer that makes server-sent events of the bytes of a stream."""
        return EventBuffer()

    @abstractmethod
    def explain_error(self, status: int, body: bytes, headers: Headers) -> ProviderRefusal:
        """Return what the answer with this `status` says is wrong."""


def decode_answer(body: bytes) -> Any:
    """Return the JSON that `body` is; None if it is none."""
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def find_error_status(body: bytes) -> int | None:
    """Return the status of the error that `body` tells in place of an answer; None where it tells none."""
    answer = decode_answer(body) if b'"error"' in body else None
    is_error = isinstance(answer, dict) and answer.get("error") and answer.keys() <= _ERROR_FIELDS
    return read_error_status(answer) if is_error else None


def read_error_status(answer: Any) -> int:
    """Return the HTTP status that the error in `answer` names; 500 where it names none."""
    match answer:
        case {"error": {"code": int(code)}} if 400 <= code < 600:
            return code
    return 500


def read_count(value: Any, otherwise: int = 0) -> int:
    """Return the number of tokens that `value` is; `otherwise` where it is no plausible one."""
    return int(value) if isinstance(value, int | float) and 0 <= value <= _MAX_COUNT else otherwise


def find_header(headers: Headers, name: bytes) -> bytes | None:
    """Return the value of the header `name`, in lower case; None without one."""
    return next((value for each, value in headers if each == name), None)


def read_retry_after(headers: Headers) -> float | None:
    """Return the seconds that `retry-after-ms` or `retry-after` asks to wait; None where neither says."""
    for name, unit in ((b"retry-after-ms", 1e3), (b"retry-after", 1.0)):
        value = find_header(headers, name)
        try:
            seconds = float(value) / unit if value is not None else -1.0
        except ValueError:  # a date: no provider sends one
            continue
        if 0 <= seconds < 86_400:
            return seconds
    return None
