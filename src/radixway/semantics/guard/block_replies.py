"""Replies to blocked requests: an error, and the answer that stands for it in each protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

from radixway.core.http.server_sent_events import DONE_EVENT, write_event
from radixway.core.pipeline import GatewayError, Reply, ReplyForm, Request

WORKER = "guard"
"""Who answered, in `x-radixway-worker`."""

Headers = list[tuple[bytes, bytes]]
_encode = msgspec.json.encode


class GuardBlockedError(GatewayError):
    """The guard does not let a request pass."""

    status = 403

    def __init__(
        self, message: str, *, code: str, kind: Literal["pii-violation", "jailbreak-blocked"], model: str
    ) -> None:
        """`kind` and `model` are what the answer that stands for it names in its id and as its model."""
        super().__init__(message, code=code)
        self.kind = kind
        self.model = model
        self.noted: Headers = []
        """The published headers."""

    def headers(self) -> Headers:
        return [*super().headers(), *self.noted]


class GuardFailedError(GatewayError):
    """The guard cannot judge a request, and may not let it pass unjudged (`on_error: block`)."""

    status = 503
    code = "guard_failed"
    retry_after_s = 1

    def __init__(self, guards: Iterable[str]) -> None:
        failed = " and ".join(guards)
        super().__init__(f"the guard could not read this request ({failed}); nothing passes unread here")
        self.noted: Headers = []

    def headers(self) -> Headers:
        return [*super().headers(), *self.noted]


def pii_blocked(model: str, types: Iterable[str]) -> GuardBlockedError:
    """Personal data that `model` may not be shown."""
    named = ", ".join(sorted(types))
    blocked = GuardBlockedError(
        f"I cannot process this request as it contains personally identifiable information ({named}) that is"
        f" not allowed for the '{model}' model according to the configured privacy policy. Please remove any"
        " sensitive information and try again.",
        code="pii_policy_denied",
        kind="pii-violation",
        model=model,
    )
    blocked.noted = [(b"x-vsr-pii-violation", b"true")]
    return blocked


def jailbreak_blocked(kind: str, confidence: float) -> GuardBlockedError:
    """An attack on the prompt."""
    blocked = GuardBlockedError(
        f"I cannot process this request as it appears to contain a potential jailbreak attempt (type: {kind},"
        f" confidence: {confidence:.3f}). Please rephrase your request in a way that complies with our usage"
        " policies.",
        code="jailbreak_block",
        kind="jailbreak-blocked",
        model="security-filter",
    )
    blocked.noted = [
        (b"x-vsr-jailbreak-blocked", b"true"),
        (b"x-vsr-jailbreak-type", kind.encode("ascii", "replace")),
        (b"x-vsr-jailbreak-confidence", b"%.3f" % confidence),
    ]
    return blocked


def block_reply(blocked: GuardBlockedError, request: Request, now: float) -> Reply:
    """The published answer: status 200, `content_filter`, no usage; one event where the request streams.

    `now`: seconds since the epoch, part of the id.
    """
    write = BLOCKED_REPLIES[request.endpoint.reply_form]
    body = write(blocked, request.stream, int(now))
    kind = b"text/event-stream" if request.stream else b"application/json"
    return Reply(200, [(b"content-type", kind), *blocked.noted], WORKER, body)


_OPENAI_USAGE = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


def _chat_body(blocked: GuardBlockedError, stream: bool, now: int) -> bytes:
    said = {"role": "assistant", "content": str(blocked)}
    choice = {"index": 0, "delta" if stream else "message": said, "finish_reason": "content_filter"}
    reply: dict[str, Any] = {
        "id": f"chatcmpl-{blocked.kind}-{now}",
        "object": "chat.completion.chunk" if stream else "chat.completion",
        "created": now,
        "model": blocked.model,
        "choices": [choice],
    }
    return _openai_body(reply, stream)


def _completion_body(blocked: GuardBlockedError, stream: bool, now: int) -> bytes:
    choice = {"index": 0, "text": str(blocked), "logprobs": None, "finish_reason": "content_filter"}
    reply: dict[str, Any] = {
        "id": f"cmpl-{blocked.kind}-{now}",
        "object": "text_completion",
        "created": now,
        "model": blocked.model,
        "choices": [choice],
    }
    return _openai_body(reply, stream)


def _openai_body(reply: dict[str, Any], stream: bool) -> bytes:
    if stream:
        return _sse_event(reply) + DONE_EVENT
    return _encode(reply | {"usage": _OPENAI_USAGE})


def _generate_body(blocked: GuardBlockedError, stream: bool, now: int) -> bytes:
    reply = {
        "text": str(blocked),
        "output_ids": [],
        "meta_info": {
            "id": f"{blocked.kind}-{now}",
            "finish_reason": {"type": "content_filter", "message": blocked.code},
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "cached_tokens": 0,
        },
    }
    return _sse_event(reply) + DONE_EVENT if stream else _encode(reply)


def _anthropic_body(blocked: GuardBlockedError, stream: bool, now: int) -> bytes:
    text = {"type": "text", "text": str(blocked)}
    usage = {"input_tokens": 0, "output_tokens": 0}
    stop = {"stop_reason": "refusal", "stop_sequence": None}
    message: dict[str, Any] = {
        "id": f"msg_{blocked.kind}-{now}",
        "type": "message",
        "role": "assistant",
        "model": blocked.model,
        "content": [text],
        **stop,
        "usage": usage,
    }
    if not stream:
        return _encode(message)
    begun = message | {"content": [], "stop_reason": None}
    return (
        _sse_event_name("message_start", message=begun)
        + _sse_event_name("content_block_start", index=0, content_block={"type": "text", "text": ""})
        + _sse_event_name("content_block_delta", index=0, delta={"type": "text_delta", "text": str(blocked)})
        + _sse_event_name("content_block_stop", index=0)
        + _sse_event_name("message_delta", delta=stop, usage=usage)
        + _sse_event_name("message_stop")
    )


def _response_body(blocked: GuardBlockedError, stream: bool, now: int) -> bytes:
    name, item_id = f"resp_{blocked.kind}-{now}", f"msg_{blocked.kind}-{now}"
    part = {"type": "output_text", "text": str(blocked), "annotations": [], "logprobs": []}
    item: dict[str, Any] = {"type": "message", "id": item_id, "role": "assistant"}
    whole = item | {"content": [part], "status": "incomplete"}
    begun: dict[str, Any] = {
        "id": name,
        "object": "response",
        "created_at": now,
        "status": "in_progress",
        "model": blocked.model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "usage": None,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    ended = begun | {
        "status": "incomplete",
        "output": [whole],
        "incomplete_details": {"reason": "content_filter"},
        "usage": {
            "input_tokens": 0,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 0,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 0,
        },
    }
    if not stream:
        return _encode(ended)
    at = {"item_id": item_id, "output_index": 0, "content_index": 0}
    empty = part | {"text": ""}
    told: list[tuple[str, dict[str, Any]]] = [
        ("response.created", {"response": begun}),
        ("response.in_progress", {"response": begun}),
        ("response.output_item.added", {"output_index": 0, "item": item | _BEGINS}),
        ("response.content_part.added", at | {"part": empty}),
        ("response.output_text.delta", at | {"delta": str(blocked), "logprobs": []}),
        ("response.output_text.done", at | {"text": str(blocked), "logprobs": []}),
        ("response.content_part.done", at | {"part": part}),
        ("response.output_item.done", {"output_index": 0, "item": whole}),
        ("response.incomplete", {"response": ended}),
    ]
    return b"".join(_sse_event_name(kind, sequence_number=at, **more) for at, (kind, more) in enumerate(told))


_BEGINS: dict[str, Any] = {"content": [], "status": "in_progress"}


def _sse_event(data: Mapping[str, Any]) -> bytes:
    return write_event(_encode(data))


def _sse_event_name(kind: str, **more: Any) -> bytes:
    return write_event(_encode({"type": kind, **more}), event_type=kind)


BLOCKED_REPLIES: dict[ReplyForm, Callable[[GuardBlockedError, bool, int], bytes]] = {
    ReplyForm.CHAT: _chat_body,
    ReplyForm.COMPLETION: _completion_body,
    ReplyForm.RESPONSE: _response_body,
    ReplyForm.MESSAGE: _anthropic_body,
    ReplyForm.GENERATE: _generate_body,
}
