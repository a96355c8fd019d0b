"""Traces in Mooncake's format: requests by time, with the prompts' blocks by number and no text.

One JSON object a line (the file may be gzipped)::

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, …]}

`timestamp` is in milliseconds since the trace began; `hash_ids` name the prompt's blocks of 512 tokens, the
last one maybe partial, each standing for all that leads to it. Where blocks have another size, every line
says so in `block_size`. `session` may hold a number that the requests of one session share, and `delay` the
milliseconds from the end of the session's answer before it until the request comes: then it waits for that
answer, and its `timestamp` only says in which order it stands. Source: Mooncake (FAST'25), its
`FAST25-release/traces`.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Annotated

import msgspec
from msgspec import Meta

BLOCK_TOKENS = 512
"""Tokens a block in Mooncake's traces."""

_GZIP = b"\x1f\x8b"

_Count = Annotated[int, Meta(ge=0)]


class TraceError(ValueError):
    """The file is no trace; the message names file and line."""


class TraceLine(msgspec.Struct, omit_defaults=True):
    """A line of a trace."""

    timestamp: Annotated[float, Meta(ge=0)]
    input_length: Annotated[int, Meta(ge=1)]
    output_length: _Count
    hash_ids: list[int]
    block_size: Annotated[int, Meta(ge=1)] | None = None
    session: int | None = None
    delay: Annotated[float, Meta(ge=0)] | None = None
    """Milliseconds from the end of the session's answer before it."""


_decode = msgspec.json.Decoder(TraceLine).decode


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """A request of a trace."""

    at: float
    """Seconds since the trace began."""
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]
    """Names of the prompt's whole blocks."""
    session: int | None = None
    """Conversation of the request, if the trace has it."""
    delay_s: float | None = None
    """Pause after the session's answer before it, if the trace has it."""


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """Requests in the order of their times, and the size of the blocks that they name."""

    requests: list[TraceRequest]
    block_tokens: int


def read_trace(
    path: Path, default_block_tokens: int = BLOCK_TOKENS, max_requests: int | None = None
) -> RequestTrace:
    """Read a trace, whose blocks have that size unless its lines say otherwise.

    Raises TraceError, also where it has more than `max_requests`.
    """
    requests: list[TraceRequest] = []
    block_tokens: int | None = None
    for number, text in enumerate(_read_lines(path), 1):
        if not text.strip():
            continue
        try:
            line = _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TraceError(f"{path}:{number}: {_explain_bad_line(error, text)}") from None
        size = line.block_size or default_block_tokens
        if block_tokens not in (None, size):
            raise TraceError(f"{path}:{number}: block_size changes from {block_tokens} to {size}")
        block_tokens = size
        if len(line.hash_ids) > -(-line.input_length // block_tokens):
            raise TraceError(
                f"{path}:{number}: {len(line.hash_ids)} hash_ids for {line.input_length} tokens in blocks "
                f"of {block_tokens}"
            )
        blocks = tuple(line.hash_ids[: line.input_length // block_tokens])
        at = line.timestamp / 1e3
        if len(requests) == max_requests:
            raise TraceError(f"{path}: there are more than {max_requests} requests in it")
        delay_s = None if line.delay is None else line.delay / 1e3
        answer = max(1, line.output_length)
        requests.append(TraceRequest(at, line.input_length, answer, blocks, line.session, delay_s))
    if not requests:
        raise TraceError(f"{path}: there is no request in it")
    requests.sort(key=lambda request: request.at)
    return RequestTrace(requests, block_tokens or default_block_tokens)


def _read_lines(path: Path) -> Iterator[bytes]:
    try:
        with path.open("rb") as file:
            zipped = file.peek(2)[:2] == _GZIP
            with gzip.open(file) if zipped else file as lines:
                yield from lines
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or error
        raise TraceError(f"cannot read {path}: {reason}") from None


def _explain_bad_line(error: Exception, text: bytes) -> str:
    if text.lstrip()[:1] != b"{" and b"," in text:
        return (
            "this is no JSON object; a trace in CSV, like Azure's, does not say which prompts share a "
            "prefix, and so tells nothing about policies"
        )
    return str(error)


class TraceRecorder:
    """Hands lines of a trace to `write` as lines of traffic come in.

    Blocks get numbers in the order in which they first appear, so the file says which prompts begin alike and
    nothing else of them. Where a request's blocks have another size than the file's, larger ones are cut (all
    parts of a shared block are shared) and smaller ones joined (a block stands for all that leads to it, so
    of each run of neighbours the last one's name does).
    """

    def __init__(self, write: Callable[[bytes], object], block_tokens: int | None = None) -> None:
        """`block_tokens`: tokens a block in the trace; by default those of the first request."""
        self.block_tokens = block_tokens
        self.recorded = 0
        self.left_out = 0
        """Requests whose blocks cannot be made into blocks of the trace's size."""
        self._write = write
        self._blocks: dict[tuple[int, int], int] = {}
        self._sessions: dict[int, int] = {}

    def record_line(self, text: bytes) -> None:
        """Add `text`, a line of traffic. Raises TraceError if it is none."""
        try:
            line = _decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise TraceError(f"this is no line of traffic: {error}") from None
        if line.block_size is None:
            raise TraceError("this is no line of traffic: it tells no block_size")
        size = self.block_tokens = self.block_tokens or line.block_size
        if size % line.block_size and line.block_size % size:
            self.left_out += 1
            return
        names = self._resize_blocks(line.hash_ids, line.block_size, size)
        line.hash_ids = [self._blocks.setdefault(name, len(self._blocks)) for name in names]
        line.block_size = size
        if line.session is not None:
            line.session = self._sessions.setdefault(line.session, len(self._sessions))
        self._write(msgspec.json.encode(line) + b"\n")
        self.recorded += 1

    @staticmethod
    def _resize_blocks(blocks: list[int], theirs: int, ours: int) -> list[tuple[int, int]]:
        """Convert block sizes: yield which of their blocks, and which part, each of ours is."""
        if theirs > ours:
            return [(block, part) for block in blocks for part in range(theirs // ours)]
        step = ours // theirs
        return [(block, 0) for block in blocks[step - 1 :: step]]


_BLOCK = 64
"""Tokens per block."""


class _SamplePrompt:
    """A prompt that others extend, by whole blocks; no two grow alike."""

    def __init__(self, names: Iterator[int], blocks: list[int] | None = None) -> None:
        self._names = names
        self._blocks = blocks or []

    def extend_prompt(self, tokens: int) -> _SamplePrompt:
        more = [next(self._names) for _ in range(max(1, tokens // _BLOCK))]
        return _SamplePrompt(self._names, self._blocks + more)

    def to_trace_line(
        self, at_s: float, output_tokens: int, session: int, pause_s: float | None = None
    ) -> TraceLine:
        return TraceLine(
            timestamp=round(at_s * 1e3, 1),
            input_length=len(self._blocks) * _BLOCK,
            output_length=output_tokens,
            hash_ids=self._blocks,
            block_size=_BLOCK,
            session=session,
            delay=None if pause_s is None else round(pause_s * 1e3, 1),
        )


def _chat_trace(draw: Random) -> Iterator[TraceLine]:
    """Return chats with six assistants, each with its own system prompt."""
    names = count()
    assistants = [_SamplePrompt(names).extend_prompt(draw.randint(600, 2400)) for _ in range(6)]
    for session in range(220):
        prompt, at_s = draw.choice(assistants), draw.uniform(0, 420)
        for _ in range(min(14, 1 + int(draw.expovariate(0.22)))):
            prompt = prompt.extend_prompt(draw.randint(40, 400))
            answer = draw.randint(30, 350)
            yield prompt.to_trace_line(at_s, answer, session)
            prompt = prompt.extend_prompt(answer)
            at_s += 4 + draw.expovariate(1 / 18)


def _agent_trace(draw: Random) -> Iterator[TraceLine]:
    """Return calls of three kinds of agents with long instructions, each sent once a tool has answered."""
    names = count()
    kinds = [_SamplePrompt(names).extend_prompt(draw.randint(6_000, 9_000)) for _ in range(3)]
    for session in range(70):
        prompt, at_s, pause_s = draw.choice(kinds).extend_prompt(500), draw.uniform(0, 300), None
        for _ in range(draw.randint(6, 22)):
            answer = draw.randint(40, 200)
            yield prompt.to_trace_line(at_s, answer, session, pause_s)
            prompt = prompt.extend_prompt(answer + draw.randint(100, 1600))
            pause_s = draw.expovariate(1 / 4)
            at_s += 2 + pause_s


def _document_trace(draw: Random) -> Iterator[TraceLine]:
    """Return short questions about forty long documents, few of them popular."""
    names = count()
    documents = [_SamplePrompt(names).extend_prompt(draw.randint(6_000, 20_000)) for _ in range(40)]
    often = [1 / (rank + 1) for rank in range(len(documents))]
    for session in range(700):
        (document,) = draw.choices(documents, often)
        question = document.extend_prompt(draw.randint(30, 120))
        yield question.to_trace_line(draw.uniform(0, 500), draw.randint(60, 300), session)


_MAKERS: dict[str, Callable[[Random], Iterator[TraceLine]]] = {
    "chats": _chat_trace,
    "agents": _agent_trace,
    "documents": _document_trace,
}

SAMPLES: tuple[str, ...] = tuple(_MAKERS)
"""Their names."""


def make_sample_trace(name: str) -> bytes:
    """A trace as a file holds it. Raises KeyError for a name that is none of `SAMPLES`."""
    lines = sorted(_MAKERS[name](Random(name)), key=lambda line: line.timestamp)
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)
