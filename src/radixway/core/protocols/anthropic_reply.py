"""Anthropic's `message`, whole and as a stream of events, its content blocks and errors."""

import json
from typing import Any

import msgspec
from xxhash import xxh3_128_hexdigest

from radixway.core.http import HttpError
from radixway.core.parsers import CallDelta
from radixway.core.protocols.answer import (
    AnswerDelta,
    ContentBlock,
    FinishInfo,
    FinishReason,
    GeneratedAnswer,
    ReplyMetadata,
)
from radixway.core.protocols.base import encode_event

_INVALID = "INVALID_JSON"
"""Wraps arguments that are not valid JSON, as Anthropic's guide advises, so that they can be sent back."""


def parse_tool_input(arguments: str) -> dict[str, Any]:
    """Return `arguments` as an object; what is cut off or otherwise none as it is, under `INVALID_JSON`."""
    try:  # not json.loads, which lets pass what JSON cannot say: NaN, half of a surrogate pair
        given = msgspec.json.decode(arguments) if arguments.strip() else {}
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {_INVALID: arguments}
    return given if isinstance(given, dict) else {_INVALID: arguments}


def tool_input_text(arguments: str) -> str:
    """Return `arguments` as JSON text; as the model wrote it, where that is an object."""
    given = parse_tool_input(arguments)
    return arguments if _INVALID not in given and arguments.strip() else json.dumps(given, ensure_ascii=False)


def arguments_from_input(given: dict[str, Any]) -> str:
    """Return the arguments of a call from `given`, its `input`."""
    match given:
        case {"INVALID_JSON": str(arguments)} if len(given) == 1:
            return arguments
    return json.dumps(given, ensure_ascii=False)


_STOP_REASONS: dict[FinishReason, str] = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "abort": "pause_turn",  # the client may send it back to be gone on with
    "content_filter": "refusal",
}
_ERROR_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


def message_start_object(head: ReplyMetadata) -> dict[str, Any]:
    """The message before anything of it is there; of its usage only the prompt's length is known."""
    return {
        "id": f"msg_{head.id}",
        "type": "message",
        "role": "assistant",
        "model": head.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "stop_details": None,
        "usage": _usage_fields(len(head.prompt_ids), 0, 0),
    }


def message_object(head: ReplyMetadata, answer: GeneratedAnswer, ending: FinishInfo) -> dict[str, Any]:
    """Build the message with everything in `answer`."""
    content = [content_block(block) for block in answer.blocks]
    stop, usage = stop_fields(answer, ending), usage_object(ending)
    return {**message_start_object(head), "content": content, **stop, "usage": usage}


def content_block(block: ContentBlock) -> dict[str, Any]:
    """Build the content block of `block`."""
    if block.kind == "call":
        given = parse_tool_input(block.text)
        return {"type": "tool_use", "id": block.call_id, "name": block.name, "input": given}
    if block.kind == "text":
        return {"type": "text", "text": block.text}
    return {"type": "thinking", "thinking": block.text, "signature": thinking_signature(block.text)}


def thinking_signature(thinking: str) -> str:
    """A digest of the thinking. It vouches for nothing, but clients drop thinking that has no signature."""
    return xxh3_128_hexdigest(thinking.encode("utf-8", "surrogatepass"))


def stop_fields(answer: GeneratedAnswer, ending: FinishInfo) -> dict[str, Any]:
    """Build `stop_reason`, and `stop_sequence` if `ending` says that one ended it."""
    finish = answer.finish_reason(ending.reason)
    by_sequence = finish == "stop" and ending.stop is not None
    reason = "stop_sequence" if by_sequence else _STOP_REASONS[finish]
    sequence = ending.stop if by_sequence else None
    return {"stop_reason": reason, "stop_sequence": sequence, "stop_details": None}


def usage_object(ending: FinishInfo) -> dict[str, Any]:
    """Build `usage` from `ending`: cached tokens are not among the input tokens."""
    return _usage_fields(
        ending.prompt_tokens - ending.cached_tokens, ending.cached_tokens, ending.completion_tokens
    )


def error_object(error: HttpError) -> dict[str, Any]:
    """`{"type": "error", "error": {"type", "message"}}`; the message begins with the field at fault."""
    kind = _ERROR_TYPES.get(error.status, "invalid_request_error" if error.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": error.client_message}}


def _usage_fields(uncached: int, cached: int, output: int) -> dict[str, Any]:
    return {
        "input_tokens": uncached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": output,
    }


class AnthropicEventWriter:
    """Writes the events of one message.

    A tool's input is sent when it is complete and known to be JSON, as Anthropic's own servers do by default:
    SDKs parse what they have after every piece, and raise.
    """

    def __init__(self, head: ReplyMetadata) -> None:
        self._head = head
        self._answer = GeneratedAnswer()

    def encode_start(self) -> bytes:
        return _named_event("message_start", message=message_start_object(self._head))

    def encode_delta(self, growth: AnswerDelta) -> bytes:
        """Encode `growth`; where a new block begins, the end of the one before and its beginning first."""
        events = b""
        for part in growth.parts:
            before = self._answer.blocks[-1] if self._answer.blocks else None
            if self._answer.add_part(part):
                if before is not None:
                    events += self._block_stop(self._block_index - 1, before)
                events += self._block_start(self._answer.blocks[-1])
            if not isinstance(part, CallDelta):
                kind = self._answer.blocks[-1].kind
                events += self._block_delta(self._block_index, {"type": f"{kind}_delta", kind: part.text})
        return events

    def encode_end(self, ending: FinishInfo) -> bytes:
        """Encode the end of the last block, `message_delta` with `ending`, and `message_stop`."""
        events = self._block_stop(self._block_index, self._answer.blocks[-1]) if self._answer.blocks else b""
        events += _named_event(
            "message_delta", delta=stop_fields(self._answer, ending), usage=usage_object(ending)
        )
        return events + _named_event("message_stop")

    def encode_failure(self, error: HttpError) -> bytes:
        return encode_event(error_object(error), named=True)

    @property
    def _block_index(self) -> int:
        return len(self._answer.blocks) - 1

    def _block_start(self, block: ContentBlock) -> bytes:
        empty: dict[str, Any] = {"type": block.kind, block.kind: ""}
        if block.kind == "thinking":
            empty["signature"] = ""
        if block.kind == "call":
            empty = {"type": "tool_use", "id": block.call_id, "name": block.name, "input": {}}
        return _named_event("content_block_start", index=self._block_index, content_block=empty)

    def _block_stop(self, index: int, block: ContentBlock) -> bytes:
        events = b""
        if block.kind == "call":
            text = tool_input_text(block.text)
            events = self._block_delta(index, {"type": "input_json_delta", "partial_json": text})
        if block.kind == "thinking":
            signature = thinking_signature(block.text)
            events = self._block_delta(index, {"type": "signature_delta", "signature": signature})
        return events + _named_event("content_block_stop", index=index)

    def _block_delta(self, index: int, delta: dict[str, Any]) -> bytes:
        return _named_event("content_block_delta", index=index, delta=delta)


def _named_event(kind: str, **fields: Any) -> bytes:
    return encode_event({"type": kind, **fields}, named=True)
