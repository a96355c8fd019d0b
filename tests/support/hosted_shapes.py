"""Answers of providers of hosted models, whole and as their events, in the shapes that they publish."""

from __future__ import annotations

import asyncio
import binascii
import json
import struct
from dataclasses import dataclass, field
from typing import Any

SIGNATURE = "EqQBCgIYAhIM1gbcDa9GJwZA2b3h"


@dataclass
class Scene:
    """What the next answers are: the default is a greeting."""

    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    thinks: str = ""
    text: str = "Hello there"
    stop: str = ""
    """The provider's own stop reason, in place of the usual one."""
    refusals: list[tuple[int, Any, dict[str, str]]] = field(default_factory=list)
    """Errors before that: status, body (bytes, or what is sent as JSON), headers."""
    breaks_with: dict[str, Any] | None = None
    """An error event in the middle of a stream."""
    goes_on: asyncio.Event | None = None
    """Waited for before the last event of a stream."""
    left: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when a client leaves during that."""


def anthropic_reply(scene: Scene) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if scene.thinks:
        content.append({"type": "thinking", "thinking": scene.thinks, "signature": SIGNATURE})
    if scene.text:
        content.append({"type": "text", "text": scene.text})
    for at, (name, given) in enumerate(scene.calls):
        content.append({"type": "tool_use", "id": f"toolu_{at}", "name": name, "input": given})
    usage = {
        "input_tokens": 9,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 20,
        "output_tokens": 5,
    }
    return {
        "id": "msg_01",
        "type": "message",
        "role": "assistant",
        "model": "claude-x-20260101",
        "content": content,
        "stop_reason": scene.stop or ("tool_use" if scene.calls else "end_turn"),
        "stop_sequence": None,
        "usage": usage,
    }


def anthropic_events(scene: Scene) -> list[dict[str, Any]]:
    whole = anthropic_reply(scene)
    start = whole | {"content": [], "stop_reason": None, "usage": whole["usage"] | {"output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": start}, {"type": "ping"}]
    for index, block in enumerate(whole["content"]):
        empty, deltas = _anthropic_block(block)
        events.append({"type": "content_block_start", "index": index, "content_block": empty})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        events.append({"type": "content_block_stop", "index": index})
    if scene.breaks_with is not None:
        return [*events, scene.breaks_with]
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    return [
        *events,
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 5}},
        {"type": "message_stop"},
    ]


def _anthropic_block(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    match block["type"]:
        case "text":
            half = len(block["text"]) // 2
            parts = block["text"][:half], block["text"][half:]
            return {"type": "text", "text": ""}, [{"type": "text_delta", "text": part} for part in parts]
        case "thinking":
            thought = {"type": "thinking_delta", "thinking": block["thinking"]}
            signature = {"type": "signature_delta", "signature": SIGNATURE}
            return {"type": "thinking", "thinking": "", "signature": ""}, [thought, signature]
    text = json.dumps(block["input"])
    pieces = ["", text[:3], text[3:]]
    return block | {"input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]


def gemini_replies(scene: Scene) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    if scene.thinks:
        parts.append({"text": scene.thinks, "thought": True})
    if scene.text:
        parts.append({"text": scene.text})
    for at, (name, given) in enumerate(scene.calls):
        signed = {} if at else {"thoughtSignature": SIGNATURE}
        parts.append({"functionCall": {"name": name, "args": given}, **signed})
    usage = {
        "promptTokenCount": 129,
        "candidatesTokenCount": 5,
        "cachedContentTokenCount": 100,
        "totalTokenCount": 134,
    }
    base = {"modelVersion": "gemini-x-001", "responseId": "r1", "usageMetadata": usage}
    replies = [
        base | {"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}]} for part in parts
    ] or [base | {"candidates": [{"index": 0}]}]
    if scene.breaks_with is not None:
        return [*replies, scene.breaks_with]
    replies[-1]["candidates"][0]["finishReason"] = scene.stop or "STOP"
    return replies


def bedrock_reply(scene: Scene) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    if scene.thinks:
        content.append(
            {"reasoningContent": {"reasoningText": {"text": scene.thinks, "signature": SIGNATURE}}}
        )
    if scene.text:
        content.append({"text": scene.text})
    for at, (name, given) in enumerate(scene.calls):
        content.append({"toolUse": {"toolUseId": f"tooluse_{at}", "name": name, "input": given}})
    usage = {"inputTokens": 29, "outputTokens": 5, "totalTokens": 134, "cacheReadInputTokens": 100}
    return {
        "output": {"message": {"role": "assistant", "content": content}},
        "stopReason": scene.stop or ("tool_use" if scene.calls else "end_turn"),
        "usage": usage,
        "metrics": {"latencyMs": 5},
    }


def bedrock_events(scene: Scene) -> list[tuple[str, dict[str, Any]]]:
    whole = bedrock_reply(scene)
    events: list[tuple[str, dict[str, Any]]] = [("messageStart", {"role": "assistant"})]
    for index, block in enumerate(whole["output"]["message"]["content"]):
        at = {"contentBlockIndex": index}
        match block:
            case {"text": text}:
                events.append(("contentBlockDelta", {"delta": {"text": text}, **at}))
            case {"reasoningContent": {"reasoningText": {"text": text}}}:
                for delta in ({"text": text}, {"signature": SIGNATURE}):
                    events.append(("contentBlockDelta", {"delta": {"reasoningContent": delta}, **at}))
            case {"toolUse": {"toolUseId": call_id, "name": name, "input": given}}:
                start = {"toolUse": {"toolUseId": call_id, "name": name}}
                events.append(("contentBlockStart", {"start": start, **at}))
                delta = {"toolUse": {"input": json.dumps(given)}}
                events.append(("contentBlockDelta", {"delta": delta, **at}))
        events.append(("contentBlockStop", at))
    if scene.breaks_with is not None:
        return [*events, ("!" + scene.breaks_with["type"], scene.breaks_with)]
    events.append(("messageStop", {"stopReason": whole["stopReason"]}))
    return [*events, ("metadata", {"usage": whole["usage"], "metrics": whole["metrics"]})]


def write_frame(kind: str, payload: dict[str, Any]) -> bytes:
    """AWS's event stream: lengths, a checksum of them, headers, the payload, a checksum of all."""
    is_error = kind.startswith("!")
    named = {":exception-type": kind[1:], ":message-type": "exception"} if is_error else {":event-type": kind}
    headers = {":message-type": "event", **named, ":content-type": "application/json"}
    head = b""
    for name, value in headers.items():
        head += bytes([len(name)]) + name.encode() + b"\x07" + struct.pack(">H", len(value)) + value.encode()
    body = json.dumps(payload, ensure_ascii=False).encode()
    prelude = struct.pack(">II", 16 + len(head) + len(body), len(head))
    prelude += struct.pack(">I", binascii.crc32(prelude))
    return prelude + head + body + struct.pack(">I", binascii.crc32(prelude + head + body))


def openai_reply(scene: Scene) -> dict[str, Any]:
    calls = [
        {"id": f"call_{at}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for at, (name, given) in enumerate(scene.calls)
    ]
    message = {"role": "assistant", "content": scene.text or None, "refusal": None}
    choice = {
        "index": 0,
        "message": message | ({"tool_calls": calls} if calls else {}),
        "finish_reason": scene.stop or ("tool_calls" if calls else "stop"),
    }
    usage = {
        "prompt_tokens": 129,
        "completion_tokens": 5,
        "total_tokens": 134,
        "prompt_tokens_details": {"cached_tokens": 100},
    }
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-x-2026-01-01"}
    return head | {"choices": [choice], "usage": usage}


def openai_events(scene: Scene, *, with_usage: bool) -> list[dict[str, Any]]:
    whole = openai_reply(scene)
    choice, usage = whole["choices"][0], whole.pop("usage")
    base = whole | {"object": "chat.completion.chunk"}
    calls = [call | {"index": at} for at, call in enumerate(choice["message"].get("tool_calls", ()))]
    deltas = [{"role": "assistant", "content": scene.text}, *({"tool_calls": [call]} for call in calls)]
    events = [base | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    events.append(base | {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    return [*events, base | {"choices": [], "usage": usage}] if with_usage else events
