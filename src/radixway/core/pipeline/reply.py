"""Reply: an answer, whole or as a stream of chunks, and the tokens it used."""

import re
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol, Self

import msgspec

from radixway.core.http.server_sent_events import count_events, iterate_data
from radixway.core.pipeline.completeness import check_complete_reply

SendChunk = Callable[[bytes], Awaitable[None]]
"""Writes a piece of a stream; what it returns waits for a slow client, or is `core.http.SENT`."""


class Chunks(Protocol):
    """The bytes of a streamed answer. Its owner must close it, read to the end or not."""

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> bytes:
        """Return the next whole server-sent events. Raises StreamBrokenError if the worker breaks off."""

    async def pass_on(self, send: SendChunk) -> None:
        """Await `send` for every chunk; a stream may know a faster way. Raises StreamBrokenError."""
        async for chunk in self:
            await send(chunk)

    async def aclose(self) -> None:
        """Release the worker: stops its work if unfinished, frees its slot. May be called again."""


class TokenUsage(msgspec.Struct, eq=False, gc=False):
    """Tokens of one request."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that the worker had cached."""
    estimated: bool = False
    """The worker reported no figures, or not all."""
    tells_cached: bool = False
    """The worker says how many were cached, none perhaps."""

    @property
    def total_tokens(self) -> int:
        """Prompt and answer."""
        return self.prompt_tokens + self.completion_tokens

    def __eq__(self, other: object) -> bool:
        """Compare figures: `tells_cached` says only how they are known."""
        return isinstance(other, TokenUsage) and self._figures() == other._figures()

    __hash__ = None  # type: ignore[assignment]

    def _figures(self) -> tuple[int, int, int, bool]:
        return self.prompt_tokens, self.completion_tokens, self.cached_tokens, self.estimated

    def explain(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
        }
        if self.tells_cached:
            fields["cached_tokens"] = self.cached_tokens
        return fields | {"estimated": True} if self.estimated else fields

    def __add__(self, other: Self) -> Self:
        return type(self)(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
            self.estimated or other.estimated,
            self.tells_cached or other.tells_cached,
        )


class Reply(msgspec.Struct, eq=False):
    """An answer: `body` when it is whole, `chunks` when it streams (its first chunk has arrived by then)."""

    status: int
    headers: list[tuple[bytes, bytes]]
    """Names in lower case; without framing headers (content-length, transfer-encoding …)."""
    worker: str
    """Name of the worker that answered."""
    body: bytes = b""
    chunks: Chunks | None = None
    used: TokenUsage | None = None
    """Tokens of a whole answer of one worker, as that worker reports them."""
    _read_body: bytes | None = None
    """The body that `_reported` was read from."""
    _reported: TokenUsage | None = None

    def reported_usage(self, *, generates: bool = True) -> TokenUsage | None:
        """Return the usage that `body` reports, or None; see `read_usage`. The same body is read once."""
        if self._read_body is not self.body:
            self.note_usage(read_usage(self.body, generates=generates))
        return self._reported

    def note_usage(self, used: TokenUsage | None) -> None:
        """Note that `body` reports `used`: it was read already."""
        self._read_body, self._reported = self.body, used


class ReportingChunks(Chunks):
    """A stream that knows itself what it used, whatever its events tell."""

    reported: TokenUsage | None = None
    """None until it is known."""


_Count = Annotated[int, msgspec.Meta(ge=0, le=10**12)] | None
"""An upper bound for plausible counts."""


class _UsageDetails(msgspec.Struct):
    cached_tokens: _Count = None


class _UsageCounts(msgspec.Struct):
    """OpenAI's `usage` or SGLang's `meta_info`; below, what responses and Anthropic's messages call it."""

    prompt_tokens: _Count = None
    completion_tokens: _Count = None
    cached_tokens: _Count = None
    prompt_tokens_details: _UsageDetails | None = None
    input_tokens: _Count = None
    output_tokens: _Count = None
    input_tokens_details: _UsageDetails | None = None
    cache_read_input_tokens: _Count = None
    """Not among `input_tokens`, like the next."""
    cache_creation_input_tokens: _Count = None


class _UsageHolder(msgspec.Struct):
    usage: _UsageCounts | None = None


class _UsageAnswer(msgspec.Struct):
    usage: _UsageCounts | None = None
    meta_info: _UsageCounts | None = None
    index: int = 0
    response: _UsageHolder | None = None
    """In the last event of a streamed response."""


class _MessageStart(msgspec.Struct):
    """The first event of Anthropic's stream, which alone may tell of the prompt."""

    message: _UsageHolder | None = None


class _PooledCounts(msgspec.Struct):
    prompt_tokens: _Count = None
    total_tokens: _Count = None


class _Pooled(msgspec.Struct):
    usage: _PooledCounts | None = None


_read = msgspec.json.Decoder(_UsageAnswer | list[_UsageAnswer]).decode
_message_start = msgspec.json.Decoder(_MessageStart).decode
_read_pooled = msgspec.json.Decoder(_Pooled).decode

_LAST_CHUNKS = 3
"""Usage comes in a stream's last event but one, or in every event."""
_NEEDLE = b'"completion_tokens"'
_NEEDLES = (_NEEDLE, b'"output_tokens"')
_TEXT = re.compile(rb'"(?:content|reasoning_content|text|arguments)"\s*:\s*"(?!")')
"""Matches an event with text; streaming engines send one per token."""


def read_usage(body: bytes, *, generates: bool = True) -> TokenUsage | None:
    """Return the usage that a whole reply reports, or None. `generates`: False where the prompt is all."""
    if not generates:
        return _used_by_prompt(body)
    return _sum_usage(_decode_answers(body))


def _sum_usage(found: list[_UsageAnswer]) -> TokenUsage | None:
    if len(found) == 1:
        return _usage_of_answer(found[0])
    counted = [_usage_of_answer(answer) for answer in found]
    known = [count for count in counted if count is not None]
    return sum(known, TokenUsage()) if known and len(known) == len(counted) else None


def read_complete_reply(body: bytes, *, generates: bool = True) -> TokenUsage | None:
    """Return the usage that a whole reply reports, as `read_usage`, in one pass over `body`.

    Raises IncompleteReplyError unless it is JSON to its last byte.
    """
    if generates:
        try:
            found = _read(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            check_complete_reply(body)
            return None
        return _usage_of_answer(found) if isinstance(found, _UsageAnswer) else _sum_usage(found)
    check_complete_reply(body)
    return _used_by_prompt(body)


def _decode_answers(body: bytes) -> list[_UsageAnswer]:
    try:
        found = _read(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    return found if isinstance(found, list) else [found]


def _usage_of_answer(answer: _UsageAnswer) -> TokenUsage | None:
    counts = answer.usage or answer.meta_info
    if counts is None and answer.response is not None:
        counts = answer.response.usage
    if counts is None or counts.completion_tokens is None:
        return None if counts is None or counts.output_tokens is None else _usage_of_surface(counts)
    details = counts.prompt_tokens_details
    cached = counts.cached_tokens if details is None else details.cached_tokens
    return TokenUsage(
        counts.prompt_tokens or 0,
        counts.completion_tokens,
        cached or 0,
        tells_cached=cached is not None,
    )


def _usage_of_surface(counts: _UsageCounts) -> TokenUsage:
    """Return the usage in `counts` of a response, or of Anthropic's messages."""
    details, read = counts.input_tokens_details, counts.cache_read_input_tokens
    cached = read if details is None else details.cached_tokens
    prompt = (counts.input_tokens or 0) + (read or 0) + (counts.cache_creation_input_tokens or 0)
    return TokenUsage(prompt, counts.output_tokens or 0, cached or 0, tells_cached=cached is not None)


def _prompt_usage(first: bytes) -> TokenUsage:
    """Return what the `first` chunk of Anthropic's stream tells of the prompt."""
    for event in _event_data(first):
        try:
            start = _message_start(event).message
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        if start is not None and start.usage is not None:
            return _usage_of_surface(start.usage)
    return TokenUsage()


def _used_by_prompt(body: bytes) -> TokenUsage | None:
    """Return the usage of embeddings and scores, which have no `completion_tokens` and sometimes only a
    total."""
    try:
        usage = _read_pooled(body).usage
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if usage is None:
        return None
    tokens = usage.total_tokens if usage.prompt_tokens is None else usage.prompt_tokens
    return None if tokens is None else TokenUsage(tokens)


class MeteredChunks(Chunks):
    """A stream and what it used, reported or counted by events with text; its close tells listeners once."""

    def __init__(self, chunks: Chunks, done: Callable[[TokenUsage], None], *, several: bool = False) -> None:
        """`done`: the first listener.

        `several`: there may be events of several answers, each with its `index` and figures of its own.
        """
        self._chunks = chunks
        self._send: SendChunk
        self._listeners = [done]
        self._several = several
        self._first: bytes | None = None
        self._last: deque[bytes] = deque(maxlen=_LAST_CHUNKS)
        self._events = 0
        """Events of all chunks: middle ones are assumed to hold text, since parsing them costs too much."""
        self._chunk_count = 0
        self._by_answer: dict[int, bytes] = {}
        """Last event with usage by answer."""

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        chunk = await anext(self._chunks)
        self._note_chunk(chunk)
        return chunk

    async def pass_on(self, send: SendChunk) -> None:
        self._send = send
        try:
            await self._chunks.pass_on(self._send_noted)
        finally:
            del self._send  # else a cycle of references keeps the request until a garbage collection

    def add_listener(self, done: Callable[[TokenUsage], None]) -> None:
        """Call `done` too with what the stream used, after earlier listeners."""
        self._listeners.append(done)

    async def aclose(self) -> None:
        await self._chunks.aclose()
        if self._listeners:
            listeners, self._listeners = self._listeners, []
            used = self._final_usage()
            for listener in listeners:
                listener(used)

    def _send_noted(self, chunk: bytes) -> Awaitable[None]:
        """Note `chunk` and send it: called for each, when it arrives."""
        self._note_chunk(chunk)
        return self._send(chunk)

    def _note_chunk(self, chunk: bytes) -> None:
        self._chunk_count += 1
        self._last.append(chunk)
        self._events += chunk.count(b"\n\n") or count_events(chunk)
        if self._first is None:
            self._first = chunk
        if self._several and b'"index"' in chunk and _NEEDLE in chunk:
            for event in _event_data(chunk):
                for answer in _decode_answers(event):
                    self._by_answer[answer.index] = event

    def _final_usage(self) -> TokenUsage:
        if isinstance(self._chunks, ReportingChunks) and self._chunks.reported is not None:
            return self._chunks.reported
        chunks = self._by_answer.values()
        reported = [used for chunk in chunks if (used := _last_reported_usage(chunk)) is not None]
        if reported:
            return sum(reported, TokenUsage())
        for chunk in reversed(self._last):
            if (used := _last_reported_usage(chunk)) is not None:
                if not used.prompt_tokens and self._first is not None:
                    start = _prompt_usage(self._first)
                    start.completion_tokens = used.completion_tokens
                    return start
                return used
        looked_at = [*self._last]
        if self._first is not None and self._chunk_count > _LAST_CHUNKS:
            looked_at.append(self._first)
        between = self._events - sum(count_events(chunk) for chunk in looked_at)
        return TokenUsage(0, between + sum(map(count_text_deltas, looked_at)), 0, True)


def count_text_deltas(chunk: bytes) -> int:
    """Count the events of `chunk` that bring text."""
    return len(_TEXT.findall(chunk))


def _last_reported_usage(chunk: bytes) -> TokenUsage | None:
    for event in reversed(_event_data(chunk)):
        if any(needle in event for needle in _NEEDLES) and (used := read_usage(event)) is not None:
            return used
    return None


def _event_data(chunk: bytes) -> list[bytes]:
    return [*iterate_data(chunk)] if b"data:" in chunk else [chunk.strip()]
