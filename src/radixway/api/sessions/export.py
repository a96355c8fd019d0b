"""Samples of many sessions as one stream: a line of JSON each, or Arrow."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from radixway.api.sessions.session_service import SessionService
from radixway.core.pipeline import BadRequest
from radixway.trajectories.sessions import AgentSession, TrainingSample

if TYPE_CHECKING:
    import pyarrow

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"

_END_OF_STREAM = b"\xff\xff\xff\xff\x00\x00\x00\x00"
"""Arrow's: a continuation marker, and a message of no length."""
_encode = msgspec.json.encode


async def stream_json_lines(
    service: SessionService, sessions: Sequence[AgentSession]
) -> AsyncIterator[bytes]:
    """Write a line for each sample of `sessions`."""
    async for samples in _samples_of_each(service, sessions):
        for sample in samples:
            yield _encode(sample) + b"\n"


async def stream_arrow(service: SessionService, sessions: Sequence[AgentSession]) -> AsyncIterator[bytes]:
    """Write Arrow's streaming format, a record batch for each of `sessions`."""
    schema = _schema()
    yield schema.serialize().to_pybytes()
    async for samples in _samples_of_each(service, sessions):
        if samples:
            yield await asyncio.to_thread(_encode_batch, samples, schema)
    yield _END_OF_STREAM


def require_arrow() -> None:
    """Raises BadRequest where the library is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        message = "format: arrow needs pyarrow, which radixway[arrow] brings; jsonl needs nothing"
        raise BadRequest(message, param="format", code="arrow_missing") from None


def _schema() -> pyarrow.Schema:
    import pyarrow as pa

    span = pa.struct(
        [
            *(("start", pa.int64()), ("end", pa.int64())),
            *(("source", pa.string()), ("loss_mask", pa.int8()), ("version", pa.string())),
        ]
    )
    experts = pa.struct(
        [("call", pa.string()), ("start", pa.int64()), ("end", pa.int64()), ("data", pa.binary())]
    )
    part = pa.struct(
        [
            *(("id", pa.string()), ("start", pa.int64()), ("sampled_at", pa.int64()), ("end", pa.int64())),
            *(("trained", pa.bool_()), ("finish_reason", pa.string()), ("reward", pa.float64())),
        ]
    )
    return pa.schema(
        [
            *(("session_id", pa.string()), ("id", pa.string()), ("model", pa.string())),
            *(("tokens", pa.list_(pa.uint32())), ("loss_mask", pa.list_(pa.int8()))),
            *(("logprobs", pa.list_(pa.float32())), ("versions", pa.list_(pa.string()))),
            *(("spans", pa.list_(span)), ("routed_experts", pa.list_(experts)), ("calls", pa.list_(part))),
            *(("messages", pa.string()), ("finish_reason", pa.string()), ("reward", pa.float64())),
            *(("exact", pa.bool_()), ("deviations", pa.list_(pa.string())), ("metadata", pa.string())),
        ]
    )


def _encode_batch(samples: Sequence[TrainingSample], schema: pyarrow.Schema) -> bytes:
    import pyarrow as pa

    batch = pa.RecordBatch.from_pylist([_row(sample) for sample in samples], schema=schema)
    encoded: bytes = batch.serialize().to_pybytes()
    return encoded


def _row(sample: TrainingSample) -> dict[str, Any]:
    """Return a row of fixed column types: versions are text, messages and metadata JSON, experts bytes."""
    row: dict[str, Any] = msgspec.to_builtins(sample)
    row["versions"] = [None if version is None else str(version) for version in sample.versions]
    for span in row["spans"]:
        span["version"] = None if span["version"] is None else str(span["version"])
    for experts in row["routed_experts"]:
        experts["data"] = b64decode(experts["data"])
    row["messages"] = _encode(sample.messages).decode()
    row["metadata"] = _encode(sample.metadata).decode()
    return row


async def _samples_of_each(
    service: SessionService, sessions: Sequence[AgentSession]
) -> AsyncIterator[list[TrainingSample]]:
    """Yield the samples of each session that exists and was not collected meanwhile."""
    collected = [session.state == "collected" for session in sessions]
    for session, before in zip(sessions, collected, strict=True):
        if service.book.find_session(session.id) is session and (session.state == "collected") == before:
            yield await service.training_samples(session)
