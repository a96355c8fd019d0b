"""A chat completion as a stream of chunks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from radixway.api.protocols.answer import (
    AnswerDelta,
    FinishInfo,
    GeneratedAnswer,
    ReplyMetadata,
    SampledTokenLogprob,
)
from radixway.api.protocols.base import encode_event
from radixway.api.protocols.request import NormalizedRequest
from radixway.core.http import HttpError
from radixway.core.http.server_sent_events import DONE_EVENT
from radixway.core.parsers import CallDelta, MessageDelta

_LEAST_LOGPROB = -9999.0  # JSON has no -inf; OpenAI writes this


class ChatEventWriter:
    """Writes the role, what is added to the message, the finish reason, usage if asked, `[DONE]`."""

    def __init__(self, ask: NormalizedRequest, head: ReplyMetadata, reply_id: str) -> None:
        self._ask = ask
        self._head = head
        self._id = reply_id
        self._answer = GeneratedAnswer()

    def encode_start(self) -> bytes:
        """The role; and the prompt's ids, if ids are asked for."""
        return self._chunk_event({"role": "assistant", "content": ""}, first=True)

    def encode_delta(self, growth: AnswerDelta) -> bytes:
        """Encode one chunk with all of `growth`, or nothing."""
        delta = MessageDelta()
        for part in growth.parts:
            self._answer.add_part(part)
            delta.add_part(part)
        has_tokens = growth.token_ids and self._ask.return_token_ids
        has_scores = growth.scores and self._ask.top_logprobs is not None
        if not (delta or has_tokens or has_scores):
            return b""
        return self._chunk_event(_message_delta(delta), growth)

    def encode_end(self, ending: FinishInfo) -> bytes:
        """Encode the finish reason of `ending`, usage if asked for, and `[DONE]`."""
        events = self._chunk_event({}, finish=self._answer.finish_reason(ending.reason), stop=ending.stop)
        if self._ask.include_usage:
            events += encode_event({**self._base_fields(), "choices": [], "usage": chat_usage(ending)})
        return events + DONE_EVENT

    def encode_failure(self, error: HttpError) -> bytes:
        """Encode `error` as an event, which OpenAI's SDK raises."""
        return error.event()

    def _chunk_event(
        self,
        delta: dict[str, Any],
        growth: AnswerDelta | None = None,
        *,
        finish: str | None = None,
        stop: str | None = None,
        first: bool = False,
    ) -> bytes:
        growth = growth or AnswerDelta()
        choice: dict[str, Any] = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        if growth.scores and self._ask.top_logprobs is not None:
            choice["logprobs"] = {"content": chat_logprobs(growth.scores)}
        if growth.token_ids and self._ask.return_token_ids:
            choice["token_ids"] = list(growth.token_ids)
        if stop is not None:
            choice["stop_reason"] = stop
        chunk = {**self._base_fields(), "choices": [choice]}
        if first and self._ask.return_token_ids:
            chunk["prompt_token_ids"] = list(self._head.prompt_ids)
        return encode_event({**chunk, "usage": None} if self._ask.include_usage else chunk)

    def _base_fields(self) -> dict[str, Any]:
        head = self._head
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": head.created,
            "model": head.model,
        }


def chat_usage(ending: FinishInfo) -> dict[str, Any]:
    """Build `usage` of chat completions and completions from `ending`."""
    return {
        "prompt_tokens": ending.prompt_tokens,
        "completion_tokens": ending.completion_tokens,
        "total_tokens": ending.prompt_tokens + ending.completion_tokens,
        "prompt_tokens_details": {"cached_tokens": ending.cached_tokens},
    }


def chat_logprobs(scores: Iterable[SampledTokenLogprob]) -> list[dict[str, Any]]:
    """Build `logprobs.content` of a choice, an entry for each of `scores`."""
    return [
        {
            **_logprob_entry(score.token, score.logprob),
            "top_logprobs": [_logprob_entry(token, logprob) for token, logprob in score.top],
        }
        for score in scores
    ]


def finite_logprob(logprob: float) -> float:
    """Return `logprob` as JSON can write it."""
    return max(logprob, _LEAST_LOGPROB)


def _logprob_entry(token: bytes, logprob: float) -> dict[str, Any]:
    return {
        "token": token.decode("utf-8", "replace"),
        "logprob": finite_logprob(logprob),
        "bytes": list(token),
    }


def _message_delta(delta: MessageDelta) -> dict[str, Any]:
    added: dict[str, Any] = {}
    if delta.content:
        added["content"] = delta.content
    if delta.reasoning:
        added["reasoning_content"] = delta.reasoning
    if delta.calls:
        added["tool_calls"] = _tool_call_deltas(delta.calls)
    return added


def _tool_call_deltas(calls: Sequence[CallDelta]) -> list[dict[str, Any]]:
    """What is added to each call; its id, type and name come once."""
    return [
        {"index": call.index, "function": {"arguments": call.arguments}}
        if call.name is None
        else {
            "index": call.index,
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in calls
    ]
