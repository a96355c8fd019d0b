"""Traces in Mooncake's format: what was asked when, with the prompts' blocks by number and no text.

One JSON object a line (the file may be gzipped)::

    {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, …]}

`timestamp` is in milliseconds since the trace began; `hash_ids` name the prompt's blocks of 512 tokens, the
last one maybe partial, each standing for all that leads to it. Where blocks have another size, every line
says so in `block_size`. `session` may hold a number that the requests of one session share. Source: Mooncake
(FAST'25), its `FAST25-release/traces`.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

BLOCK_TOKENS = 512
"""Tokens a block in Mooncake's traces."""

_GZIP = b"\x1f\x8b"

_Count = Annotated[int, Meta(ge=0)]


class TraceError(Exception):
    """The file is no trace; the message names file and line."""


class TraceLine(msgspec.Struct, omit_defaults=True):
    """One line."""

    timestamp: Annotated[float, Meta(ge=0)]
    input_length: Annotated[int, Meta(ge=1)]
    output_length: _Count
    hash_ids: list[int]
    block_size: Annotated[int, Meta(ge=1)] | None = None
    session: int | None = None


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request of a trace."""

    at: float
    """Seconds since the trace began."""
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...]
    """Names of the prompt's whole blocks."""
    session: int | None = None
    """What requests of one conversation have in common, where the trace tells."""


@dataclass(frozen=True, slots=True)
class RequestTrace:
    """Requests in the order of their times, and the size of the blocks that they name."""

    requests: list[TraceRequest]
    block_tokens: int


def read_trace(
    path: Path, default_block_tokens: int = BLOCK_TOKENS, most_requests: int | None = None
) -> RequestTrace:
    """Read a trace, whose blocks have that size unless its lines say otherwise.

    Raises TraceError, also where it has more than `most_requests`.
    """
    requests: list[TraceRequest] = []
    block_tokens: int | None = None
    decode = msgspec.json.Decoder(TraceLine).decode
    for number, text in enumerate(_read_lines(path), 1):
        if not text.strip():
            continue
        try:
            line = decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise TraceError(f"{path}:{number}: {_explain_bad_line(error, text)}") from None
        said = line.block_size or default_block_tokens
        if block_tokens not in (None, said):
            raise TraceError(f"{path}:{number}: block_size changes from {block_tokens} to {said}")
        block_tokens = said
        if len(line.hash_ids) > -(-line.input_length // block_tokens):
            raise TraceError(
                f"{path}:{number}: {len(line.hash_ids)} hash_ids for {line.input_length} tokens in blocks "
                f"of {block_tokens}"
            )
        whole = tuple(line.hash_ids[: line.input_length // block_tokens])
        at = line.timestamp / 1e3
        if len(requests) == most_requests:
            raise TraceError(f"{path}: there are more than {most_requests} requests in it")
        requests.append(TraceRequest(at, line.input_length, max(1, line.output_length), whole, line.session))
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
