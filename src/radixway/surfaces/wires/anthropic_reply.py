"""Anthropic's `message` and its content blocks, and its errors."""

from __future__ import annotations

from typing import Any

from xxhash import xxh3_128_hexdigest

from radixway.surfaces.wires.answer import (
    ContentBlock,
    FinishInfo,
    FinishReason,
    GeneratedAnswer,
    ReplyMetadata,
)
from radixway.surfaces.wires.tool_input import parse_tool_input
from radixway.web import HttpError

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


def anthropic_message_id(head: ReplyMetadata) -> str:
    """`msg_…`"""
    return f"msg_{head.id}"


def message_start_object(head: ReplyMetadata) -> dict[str, Any]:
    """The message before anything of it is there; of its usage only the prompt's length is known."""
    return {
        "id": anthropic_message_id(head),
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
    """The message with everything in it."""
    content = [content_block(block) for block in answer.blocks]
    return {
        **message_start_object(head),
        "content": content,
        **stop_fields(answer, ending),
        "usage": usage_object(ending),
    }


def content_block(block: ContentBlock) -> dict[str, Any]:
    """A block with everything in it."""
    if block.kind == "call":
        return {
            "type": "tool_use",
            "id": block.call_id,
            "name": block.name,
            "input": parse_tool_input(block.text),
        }
    if block.kind == "text":
        return {"type": "text", "text": block.text}
    return {"type": "thinking", "thinking": block.text, "signature": thinking_signature(block.text)}


def thinking_signature(thinking: str) -> str:
    """A digest of the thinking. It vouches for nothing, but clients drop thinking that has no signature."""
    return xxh3_128_hexdigest(thinking.encode("utf-8", "surrogatepass"))


def stop_fields(answer: GeneratedAnswer, ending: FinishInfo) -> dict[str, Any]:
    """`stop_reason`, and `stop_sequence` if one ended it."""
    finish = answer.finish_reason(ending.reason)
    by_sequence = finish == "stop" and ending.stop is not None
    reason = "stop_sequence" if by_sequence else _STOP_REASONS[finish]
    sequence = ending.stop if by_sequence else None
    return {"stop_reason": reason, "stop_sequence": sequence, "stop_details": None}


def usage_object(ending: FinishInfo) -> dict[str, Any]:
    """`usage`: what came from the cache is not among the input tokens."""
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
