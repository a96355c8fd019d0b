"""A worker's chat completion as the parts of an answer, and those parts as events of a token log."""

from __future__ import annotations

from typing import Any

import msgspec

from radixway.api.protocols.answer import StopReason
from radixway.core.http.server_sent_events import iterate_data
from radixway.core.parsers import CallDelta, ReadPart, TextPart, ThinkingPart
from radixway.core.pipeline import GatewayError

_decode = msgspec.json.Decoder().decode
_REASONS: dict[str, StopReason] = {"length": "length", "content_filter": "content_filter", "abort": "abort"}


class CompletionParser:
    """Reads one completion, whole or chunk by chunk."""

    def __init__(self) -> None:
        self.usage: dict[str, Any] | None = None
        self.finish_reason: str | None = None
        self._calls: dict[int, str] = {}
        """Ids of calls by their index."""

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

    def _parse_event(self, event: dict[str, Any], within: str) -> list[ReadPart]:
        if event.get("error"):
            raise worker_error(502, event)
        self.usage = event.get("usage") or self.usage
        parts: list[ReadPart] = []
        for choice in event.get("choices") or ():
            self.finish_reason = choice.get("finish_reason") or self.finish_reason
            said = choice.get(within) or {}
            thought = said.get("reasoning_content") or said.get("reasoning")
            if thought:
                parts.append(ThinkingPart(str(thought)))
            if said.get("content"):
                parts.append(TextPart(str(said["content"])))
            for place, call in enumerate(said.get("tool_calls") or ()):
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


def stop_reason_of(finish_reason: str | None) -> StopReason:
    """Map a worker's `finish_reason` to a stop reason."""
    return _REASONS.get(finish_reason or "", "stop")


def encode_part(part: ReadPart) -> bytes:
    """Encode `part` as an event of the token log."""
    match part:
        case ThinkingPart(text):
            return msgspec.json.encode({"event_type": "thought", "text": text})
        case TextPart(text):
            return msgspec.json.encode({"event_type": "token", "text": text})
        case CallDelta():
            call = {"call_id": part.id, "name": part.name, "arguments": part.arguments}
            return msgspec.json.encode({"event_type": "call", "index": part.index, **call})


def decode_part(event: dict[str, Any]) -> ReadPart | None:
    """Decode the part in `event`; None: it is of another kind."""
    match event["event_type"]:
        case "token":
            return TextPart(event["text"])
        case "thought":
            return ThinkingPart(event["text"])
        case "call":
            return CallDelta(event["index"], event["call_id"], event["name"], event["arguments"])
    return None


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
