"""Replies of `/generate`, with their tokens checked: workers answer garbage too."""

from __future__ import annotations

from array import array
from base64 import b64decode
from dataclasses import dataclass
from math import isfinite, isinf, nan
from typing import Any

import msgspec

from radixway.core.http.server_sent_events import iterate_data
from radixway.trajectories.token_records import Spans, Version, sampled_spans


class UnusableReplyError(ValueError):
    """The reply does not tell what was sampled; the text says what is missing."""


class _VersionSpan(msgspec.Struct):
    version: int | str
    start: int
    end: int


class _Row(msgspec.Struct, array_like=True, gc=False):
    """A token's `[log-probability, id, text or null]`."""

    logprob: float | None
    token: int


class _Meta(msgspec.Struct):
    output_token_logprobs: list[_Row] | None = None
    weight_version: int | str | None = None
    weight_versions: list[_VersionSpan] | None = None
    completion_tokens: int | None = None
    routed_experts: Any = None


class _Body(msgspec.Struct):
    meta_info: _Meta
    output_ids: list[int]
    text: str = ""


class _Numbered(msgspec.Struct):
    index: int


_body = msgspec.json.Decoder(_Body)
_bodies = msgspec.json.Decoder(list[_Body])
_numbered = msgspec.json.Decoder(_Numbered)


@dataclass(slots=True)
class SampledTokens:
    """The tokens of one answer."""

    ids: list[int]
    text: str
    logprobs: array[float]
    """NaN for a token whose log-probability the worker did not tell."""
    spans: Spans
    version: Version | None
    experts: bytes | None


def read_sampled_tokens(raw: bytes) -> list[SampledTokens]:
    """The answers in a whole reply, one or several. Raises UnusableReplyError."""
    try:
        bodies = _bodies.decode(raw) if raw[:1] == b"[" else [_body.decode(raw)]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableReplyError(f"it is no reply of /generate: {error}") from None
    if not bodies:
        raise UnusableReplyError("there is no answer in it")
    return [_to_sampled_tokens(body) for body in bodies]


class SingleAnswerReader:
    """Reads a stream of one answer, whose events repeat all of it so far or bring only what is new."""

    def __init__(self) -> None:
        self._last = b""
        self._parts: list[_Body] | None = None
        self._events = 0

    def read_chunk(self, chunk: bytes) -> None:
        """Read a `chunk` of whole events. Raises UnusableReplyError for events of another protocol."""
        for event in iterate_data(chunk):
            self.read_event_json(event)

    def read_event_json(self, event: bytes) -> None:
        """The JSON of one event. Raises UnusableReplyError."""
        before, self._last = self._last, event
        self._events += 1
        if self._parts is not None:
            self._parts.append(_decode_body(event))
        elif self._events == 2 and _is_incremental_event(second := _decode_body(event)):
            self._parts = [_decode_body(before), second]

    @property
    def is_incremental(self) -> bool:
        """Events bring only what is new; false too while only one has come."""
        return self._parts is not None

    def answers(self) -> list[SampledTokens]:
        """The only answer, as a list. Raises UnusableReplyError."""
        return [self.answer()]

    def answer(self) -> SampledTokens:
        """The tokens sampled up to now. Raises UnusableReplyError."""
        if self._parts is None:
            return _to_sampled_tokens(_decode_body(self._last))
        last = self._parts[-1]
        logprobs = [part.meta_info.output_token_logprobs for part in self._parts]
        rows_so_far = [row for rows in logprobs for row in rows or ()]
        return _to_sampled_tokens(
            _Body(
                msgspec.structs.replace(last.meta_info, output_token_logprobs=rows_so_far),
                [token for part in self._parts for token in part.output_ids],
                "".join(part.text for part in self._parts),
            )
        )


class MultiAnswerReader:
    """Reads a stream of several answers, whose events say by their `index` which of them they are of."""

    def __init__(self) -> None:
        self._readers: dict[int, SingleAnswerReader] = {}

    def read_chunk(self, chunk: bytes) -> None:
        """Read whole events. Raises UnusableReplyError if `chunk` is of another protocol."""
        for event in iterate_data(chunk):
            try:
                index = _numbered.decode(event).index
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise UnusableReplyError(f"it does not say which answer it is of: {error}") from None
            self._readers.setdefault(index, SingleAnswerReader()).read_event_json(event)

    def answers(self) -> list[SampledTokens]:
        """The tokens of each answer up to now. Raises UnusableReplyError."""
        return [reader.answer() for reader in self._readers.values()]


def _decode_body(raw: bytes) -> _Body:
    try:
        return _body.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UnusableReplyError(f"it is no event of /generate: {error}") from None


def _is_incremental_event(event: _Body) -> bool:
    count = event.meta_info.completion_tokens
    return count is not None and count > len(event.output_ids)


def _to_sampled_tokens(body: _Body) -> SampledTokens:
    meta, ids = body.meta_info, body.output_ids
    if meta.completion_tokens is not None and meta.completion_tokens > len(ids):
        raise UnusableReplyError(f"it counts {meta.completion_tokens} tokens and names {len(ids)}")
    if body.text and not ids:
        raise UnusableReplyError("it has a text and no output_ids")
    spans = [(span.start, span.end, span.version) for span in meta.weight_versions or ()]
    version = spans[-1][2] if spans else meta.weight_version
    try:
        labels = sampled_spans(len(ids), meta.weight_version, spans=spans)
    except ValueError as error:
        raise UnusableReplyError(str(error)) from None
    return SampledTokens(
        ids,
        body.text,
        _ordered_logprobs(ids, meta.output_token_logprobs),
        labels,
        version,
        _decode_experts(meta.routed_experts),
    )


def _ordered_logprobs(ids: list[int], rows: list[_Row] | None) -> array[float]:
    """Return log-probabilities in the order of `ids`; NaN for missing ones."""
    if rows is None:
        return array("f", [nan] * len(ids))
    if [row.token for row in rows] != ids:
        raise UnusableReplyError("its log-probabilities are of other tokens than its output_ids")
    logprobs = array("f", [nan if row.logprob is None else row.logprob for row in rows])
    if not isfinite(sum(logprobs)) and any(map(isinf, logprobs)):
        raise UnusableReplyError("a log-probability is infinite")
    return logprobs


def _decode_experts(experts: Any) -> bytes | None:
    """Decode SGLang's base64; other spellings pass unchanged."""
    if experts is None:
        return None
    if isinstance(experts, str):
        try:
            return b64decode(experts, validate=True)
        except ValueError:
            return experts.encode()
    return msgspec.json.encode(experts)
