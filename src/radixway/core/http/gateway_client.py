"""A small client of a running gateway, for the command line."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, TypeVar

import aiohttp
import msgspec

from radixway.core.http.server_sent_events import iterate_data, read_events
from radixway.core.net.connection_errors import explain_connection_error

AnswerT = TypeVar("AnswerT")

_MAX_REPLY_BYTES = 64 << 20
"""A fleet's metrics have some megabytes."""

_READ_BUFFER_BYTES = 4 << 20
"""Lines of a recorded trace may be long."""


class GatewayCallError(Exception):
    """The gateway does not answer, or refuses the call; the message says which."""

    def __init__(self, message: str, status: int | None = None) -> None:
        """`status`: of its answer, if it refused."""
        super().__init__(message)
        self.status = status


@dataclass(slots=True)
class ChatCompletionInfo:
    """Figures that came with an answer."""

    request_id: str = ""
    model: str = ""
    worker: str = ""
    text: str = ""
    first_token_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def summary(self) -> str:
        """Return one line for people."""
        return (
            f"{self.model} on {self.worker}"
            f" · {self.cached_tokens} of {self.prompt_tokens} prompt tokens cached"
            f" · first token after {self.first_token_s * 1e3:.0f} ms · {self.completion_tokens} tokens"
            f" · request {self.request_id}"
        )


class ListedWorker(msgspec.Struct):
    """A worker as the command shows it."""

    url: str
    state: str
    models: list[str]
    in_flight: int
    total: int
    kv_tokens: int | None
    sources: list[str] = []
    provider: str | None = None
    last_error: str | None = None
    error_kind: str | None = None

    @property
    def trouble(self) -> str:
        """Why it does not answer, or nothing."""
        return describe_trouble(self.state, self.last_error, self.error_kind)


def describe_trouble(state: str, last_error: str | None, error_kind: str | None) -> str:
    """Return why a worker does not answer, or nothing: `last_error` may be history."""
    return last_error or "" if error_kind is not None or state == "stale" else ""


class WorkerListing(msgspec.Struct):
    """The answer of `/list_workers`."""

    workers: list[ListedWorker]


class ListedModel(msgspec.Struct):
    """A model's name."""

    id: str


class ModelNames(msgspec.Struct):
    """The answer of `/v1/models`."""

    data: list[ListedModel]


class WorkerLoads(msgspec.Struct):
    """The answer of `/add_worker` and `/remove_worker`: requests in flight by worker."""

    worker_urls: dict[str, int]


class WorkerRegistered(msgspec.Struct):
    """The answer of `POST /workers` and `DELETE /workers`."""

    state: str
    in_flight: int
    heartbeat_s: float = 0.0


class UsageReport(msgspec.Struct, rename={"first": "from", "last": "to"}):
    """The answer of `/usage`."""

    first: str
    last: str
    by: list[str]
    usage: list[dict[str, Any]]
    limits: list[dict[str, Any]] = []


class ErasedPart(msgspec.Struct):
    """The outcome of an erasure at one target."""

    status: str
    entries: int
    why: str | None = None


class ErasureSummary(msgspec.Struct):
    """The answer of `/admin/erase`."""

    erasure: str
    receipt: str
    complete: bool
    rooms: dict[str, ErasedPart]


async def call_gateway(
    url: str,
    method: str,
    path: str,
    answer: type[AnswerT],
    body: dict[str, Any] | None = None,
    key: str | None = None,
) -> AnswerT:
    """Call with JSON and decode an answer of the shape `answer`. Raises GatewayCallError."""
    return _decode_answer(await fetch_bytes(url, method, path, body, key), answer, url)


async def fetch_bytes(
    url: str, method: str, path: str, body: dict[str, Any] | None = None, key: str | None = None
) -> bytes:
    """Call `path` with `body` and return the answer as it came. Raises GatewayCallError."""
    async with _open_call(url, method, path, body, key, timeout_s=30) as response:
        return await _read_body(response)


async def stream_chat(
    url: str, body: dict[str, Any], show: Callable[[str], None], key: str | None = None
) -> ChatCompletionInfo:
    """Stream one chat completion, handing text to `show` as it comes. Raises GatewayCallError."""
    info = ChatCompletionInfo()
    body = {**body, "stream": True, "stream_options": {"include_usage": True}}
    began = perf_counter()
    async with _open_call(url, "POST", "/v1/chat/completions", body, key) as response:
        info.request_id = response.headers.get("x-request-id", "")
        info.worker = response.headers.get("x-radixway-worker", "")
        if response.content_type != "text/event-stream":
            raise GatewayCallError(f"what answers at {url} is no gateway: it streams no events")
        async for event in _iter_events(response, url):
            if event.error:
                raise GatewayCallError(event.error.message)
            info.model = event.model or info.model
            if event.usage:
                _note_usage(info, event.usage)
            for choice in event.choices:
                if choice.delta.content:
                    info.first_token_s = info.first_token_s or perf_counter() - began
                    info.text += choice.delta.content
                    show(choice.delta.content)
    return info


async def stream_lines(
    url: str, path: str, key: str | None = None, began: Callable[[], None] = lambda: None
) -> AsyncIterator[bytes]:
    """Yield the lines of an endless answer; `began` is called once it comes. Raises GatewayCallError."""
    async with _open_call(url, "GET", path, None, key) as response:
        began()
        async for line in response.content:
            yield line


@asynccontextmanager
async def _open_call(
    url: str,
    method: str,
    path: str,
    body: dict[str, Any] | None,
    key: str | None,
    timeout_s: float | None = None,
) -> AsyncIterator[aiohttp.ClientResponse]:
    """A successful answer. Whatever goes wrong with it until it is closed is a GatewayCallError."""
    if "://" not in url:
        url = f"http://{url}"
    headers = {"authorization": f"Bearer {key}"} if key else {}
    timeout = aiohttp.ClientTimeout(total=timeout_s)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, read_bufsize=_READ_BUFFER_BYTES) as session,
            session.request(method, url.rstrip("/") + path, json=body, headers=headers) as response,
        ):
            await _raise_for_status(response)
            yield response
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise GatewayCallError(f"no gateway answers at {url}: {explain_connection_error(error)[1]}") from None


class _Delta(msgspec.Struct):
    content: str | None = None


class _Choice(msgspec.Struct):
    delta: _Delta


class _CachedTokens(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _CachedTokens | None = None


class _Error(msgspec.Struct):
    message: str = "the stream broke"


class _Refusal(msgspec.Struct):
    error: _Error


class _Event(msgspec.Struct):
    model: str | None = None
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: _Error | None = None


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > _MAX_REPLY_BYTES:
            raise GatewayCallError(f"{response.url} answers with more than {_MAX_REPLY_BYTES >> 20} MiB")
    return bytes(body)


async def _raise_for_status(response: aiohttp.ClientResponse) -> None:
    if response.status < 400:
        return
    try:
        message = msgspec.json.decode(await _read_body(response), type=_Refusal).error.message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        message = f"{response.url} answered {response.status}"
    raise GatewayCallError(message, response.status)


async def _iter_events(response: aiohttp.ClientResponse, url: str) -> AsyncIterator[_Event]:
    async for event in read_events(response.content.iter_any()):
        for data in iterate_data(event):
            yield _decode_answer(data, _Event, url)


def _decode_answer(data: bytes, shape: type[AnswerT], url: str) -> AnswerT:
    try:
        return msgspec.json.decode(data, type=shape)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise GatewayCallError(f"what answers at {url} is no gateway: {error}") from None


def _note_usage(info: ChatCompletionInfo, usage: _Usage) -> None:
    info.prompt_tokens = usage.prompt_tokens or 0
    info.completion_tokens = usage.completion_tokens or 0
    if usage.prompt_tokens_details:
        info.cached_tokens = usage.prompt_tokens_details.cached_tokens or 0
