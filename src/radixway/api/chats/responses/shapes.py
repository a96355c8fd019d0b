"""Responses as they are kept, in the published shape."""

from __future__ import annotations

from typing import Any

from radixway.api.chats.responses.items import CONVERSATION, external_id
from radixway.api.protocols import NormalizedRequest
from radixway.api.protocols.answer import ContentBlock, FinishInfo, GeneratedAnswer, ReplyMetadata, StopReason
from radixway.api.protocols.responses_reply import ResponseObject
from radixway.chat.records import MessageState
from radixway.chat.stored_responses import ResponseItems, StoredResponse
from radixway.core.http import HttpError

_MORE: dict[str, Any] = {
    "max_tool_calls": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "service_tier": "default",
    "top_logprobs": 0,
}
"""Published fields that sessions' responses do not have."""
_ENDS = {
    MessageState.TIMEOUT: "no worker was free in time",
    MessageState.ABORTED_BY_WORKER: "the worker broke off",
}


def stored_response_object(kept: StoredResponse) -> ResponseObject:
    """Build the object writer of a stored response `kept`."""
    message = kept.message
    conversation = {"id": external_id(CONVERSATION, message.chat_id)} if kept.is_conversation else None
    return build_response_object(
        message.id,
        message.model or "",
        message.created_at,
        kept.request,
        background=kept.background,
        conversation=conversation,
        completed_at=message.work_end_at if message.state is MessageState.COMPLETE else None,
    )


def build_response_object(
    message_id: str, model: str, created_at: float, request: dict[str, Any], **more: Any
) -> ResponseObject:
    """Build the object writer of a response for the message `message_id`, stored or not."""
    head = ReplyMetadata(message_id.replace("-", ""), model, int(created_at))
    told = {name: request.get(name, default) for name, default in _MORE.items()}
    ask = NormalizedRequest(model=model, body=request)
    return ResponseObject(ask, head, told | more)


def render_response(kept: StoredResponse) -> dict[str, Any]:
    """Render the response `kept` as it stands."""
    made, state = stored_response_object(kept), kept.message.state
    if state is MessageState.COMPLETE:
        return made.finished(
            stored_answer(kept), build_finish_info(kept.message.finish_reason, kept.message.usage)
        )
    if state is MessageState.CANCELLED:
        return made.cancelled(stored_answer(kept))
    if state.is_final:
        return made.failed(stored_answer(kept), stored_failure(kept))
    return made.started() | {"status": "queued" if state is MessageState.PENDING else "in_progress"}


def render_output_items(kept: StoredResponse) -> ResponseItems:
    """Render the items of the answer of `kept` so far."""
    output: ResponseItems = render_response(kept)["output"]
    return output


def stored_answer(kept: StoredResponse) -> GeneratedAnswer:
    """Return the answer of `kept` as far as it has been stored."""
    if kept.output is not None:
        return answer_from_blocks(kept.output)
    content = kept.message.content
    return answer_from_blocks([{"kind": "text", "text": content}] if content else [])


def answer_from_blocks(blocks: ResponseItems) -> GeneratedAnswer:
    """Build an answer from the `blocks` of `answer_to_blocks`."""
    answer = GeneratedAnswer()
    for block in blocks:
        names = block.get("call_id", ""), block.get("name", "")
        answer.blocks.append(ContentBlock(block["kind"], [block["text"]], *names))
    return answer


def answer_to_blocks(answer: GeneratedAnswer) -> ResponseItems:
    """Convert `answer` to JSON values."""
    return [
        {"kind": block.kind, "text": block.text}
        | ({"call_id": block.call_id, "name": block.name} if block.kind == "call" else {})
        for block in answer.blocks
    ]


_STOP_REASONS: dict[str, StopReason] = {
    "length": "length",
    "content_filter": "content_filter",
    "abort": "abort",
}


def build_finish_info(finish_reason: str | None, usage: dict[str, Any] | None) -> FinishInfo:
    """Build it from a worker's `finish_reason` and `usage`; what was not counted is 0."""
    told = usage or {}

    def count(within: Any, name: str) -> int:
        value = within.get(name) if isinstance(within, dict) else None
        return value if isinstance(value, int) else 0

    return FinishInfo(
        _STOP_REASONS.get(finish_reason or "", "stop"),
        count(told, "prompt_tokens"),
        count(told, "completion_tokens"),
        count(told.get("prompt_tokens_details"), "cached_tokens"),
        count(told.get("completion_tokens_details"), "reasoning_tokens"),
    )


def stored_failure(kept: StoredResponse) -> HttpError:
    """Return the error by which `kept` failed."""
    if kept.failure is not None:
        return HttpError(**kept.failure)
    state = kept.message.state
    status, code = (503, "timeout") if state is MessageState.TIMEOUT else (502, "worker_failed")
    return HttpError(kept.message.error or _ENDS.get(state, "it failed"), status=status, code=code)


def failure_fields(error: HttpError) -> dict[str, Any]:
    """Return the fields of `error` that are stored."""
    return {
        "message": error.client_message,
        "status": error.status,
        "code": error.code,
        "param": error.param,
        "retry_after_s": error.retry_after_s,
    }
