"""Reads chat completions of workers, for protocols that are answered by them."""

from collections.abc import Iterable
from typing import Any

import msgspec

from radixway.core.http.server_sent_events import iterate_data
from radixway.core.parsers import CallDelta, ReadPart, TextPart, ThinkingPart
from radixway.core.pipeline import GatewayError
from radixway.core.protocols.answer import FinishInfo, SampledTokenLogprob, StopReason

_decode = msgspec.json.Decoder().decode
_STOP_REASONS: dict[str, StopReason] = {
    "length": "length",
    "content_filter": "content_filter",
    "abort": "abort",
}


class CompletionParser:
    """Reads one completion, whole or chunk by chunk."""

    def __init__(self) -> None:
        self.usage: dict[str, Any] | None = None
        self.finish_reason: str | None = None
        self.stop: str | None = None
        """The stop string that ended it, where the worker says which."""
        self.scores: list[SampledTokenLogprob] = []
        """The log-probabilities of its tokens, where the worker tells them."""
        self._calls: dict[int, str] = {}

    def parse_reply(self, body: bytes) -> list[ReadPart]:
        """Parse the `body` of a worker that does not stream. Raises GatewayError: it cannot be read."""
        try:
            return self._parse_event(_decode(body), "message")
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError, ValueError):
            raise unreadable_answer_error() from None

    def parse_chunk(self, chunk: bytes) -> list[ReadPart]:
        """Parse `chunk`, whole server-sent events. Raises GatewayError: unreadable, or an error."""
        parts: list[ReadPart] = []
        try:
            for data in iterate_data(chunk):
                parts += self._parse_event(_decode(data), "delta")
        except (msgspec.DecodeError, KeyError, TypeError, AttributeError, ValueError):
            raise unreadable_answer_error() from None
        return parts

    def _parse_event(self, event: dict[str, Any], key: str) -> list[ReadPart]:
        if event.get("error"):
            raise worker_error(502, event)
        self.usage = event.get("usage") or self.usage
        parts: list[ReadPart] = []
        for choice in event.get("choices") or ():
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            stop = choice.get("stop_reason", choice.get("matched_stop"))  # vLLM's name, SGLang's
            self.stop = stop if isinstance(stop, str) else self.stop
            self.scores += parse_chat_logprobs((choice.get("logprobs") or {}).get("content") or ())
            content = choice.get(key) or {}
            thought = content.get("reasoning_content") or content.get("reasoning")
            if thought:
                parts.append(ThinkingPart(str(thought)))
            if content.get("content"):
                parts.append(TextPart(str(content["content"])))
            for place, call in enumerate(content.get("tool_calls") or ()):
                parts.append(self._parse_tool_call(call.get("index", place), call))
        return parts

    def _parse_tool_call(self, index: int, call: dict[str, Any]) -> CallDelta:
        function = call.get("function") or {}
        arguments = function.get("arguments") or ""
        if index not in self._calls:
            self._calls[index] = call.get("id") or f"call_{index}"
            return CallDelta(index, self._calls[index], str(function["name"]), arguments)
        if index != max(self._calls):
            raise ValueError("calls are written one after another")
        return CallDelta(index, arguments=arguments)


def parse_chat_logprobs(entries: Iterable[dict[str, Any]]) -> list[SampledTokenLogprob]:
    """Parse `entries`, the `logprobs.content` of a choice, as `chat_logprobs` builds it.

    Raises KeyError, TypeError, ValueError.
    """
    return [
        SampledTokenLogprob(
            *_token_logprob(entry), [_token_logprob(top) for top in entry.get("top_logprobs") or ()]
        )
        for entry in entries
    ]


def _token_logprob(entry: dict[str, Any]) -> tuple[bytes, float]:
    given = entry.get("bytes")
    token = str(entry["token"]).encode("utf-8", "replace") if given is None else bytes(given)
    return token, float(entry["logprob"])


def build_finish_info(
    finish_reason: str | None, usage: dict[str, Any] | None, stop: str | None = None
) -> FinishInfo:
    """Build it from a worker's `finish_reason`, `usage` and `stop` string; what was not counted is 0."""
    counts = usage or {}

    def count(counters: Any, name: str) -> int:
        value = counters.get(name) if isinstance(counters, dict) else None
        return value if isinstance(value, int) else 0

    return FinishInfo(
        _STOP_REASONS.get(finish_reason or "", "stop"),
        count(counts, "prompt_tokens"),
        count(counts, "completion_tokens"),
        count(counts.get("prompt_tokens_details"), "cached_tokens"),
        count(counts.get("completion_tokens_details"), "reasoning_tokens"),
        stop,
    )


def worker_error(status: int, body: Any) -> GatewayError:
    """Build the error of a worker's refusal with `status`, in the words of its `body`."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        error = {"message": str(error or "the worker refused")}
    code, param = (
        error.get(name) if isinstance(error.get(name), str) else None for name in ("code", "param")
    )
    return GatewayError(
        str(error.get("message") or "the worker refused"),
        status=status,
        code=code or "worker_refused",
        param=param,
    )


def unreadable_answer_error() -> GatewayError:
    """Build the error of a worker's reply that cannot be read."""
    return GatewayError("the worker's answer cannot be read", status=502, code="worker_refused")
