"""Responses as they are kept, in the published shape."""

from __future__ import annotations

from typing import Any

from radixway.chat.records import Message, MessageState
from radixway.chat.responses import Items, Response
from radixway.surfaces.chats.responses import ids
from radixway.surfaces.chats.responses.hearing import reason_of
from radixway.surfaces.wires import Ask
from radixway.surfaces.wires.answer import Answer, Block, Ending, Head
from radixway.surfaces.wires.responses_reply import ResponseObject
from radixway.web import HttpError

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


def object_of(kept: Response) -> ResponseObject:
    """What makes its objects."""
    message = kept.message
    conversation = {"id": ids.told(ids.CONVERSATION, message.chat_id)} if kept.is_conversation else None
    return response_object(
        message.id,
        message.model or "",
        message.created_at,
        kept.request,
        background=kept.background,
        conversation=conversation,
        completed_at=message.work_end_at if message.state is MessageState.COMPLETE else None,
    )


def response_object(
    message_id: str, model: str, created_at: float, request: dict[str, Any], **more: Any
) -> ResponseObject:
    """For a response that has, or would have, that message's id."""
    head = Head(message_id.replace("-", ""), model, int(created_at))
    told = {name: request.get(name, default) for name, default in _MORE.items()}
    ask = Ask(model=model, body=request)
    return ResponseObject(ask, head, ids.told(ids.RESPONSE, message_id), told | more)


def whole(kept: Response) -> dict[str, Any]:
    """The response as it stands."""
    made, state = object_of(kept), kept.message.state
    if state is MessageState.COMPLETE:
        return made.ended(answer_of(kept), ending_of(kept.message))
    if state is MessageState.CANCELLED:
        return made.cancelled(answer_of(kept))
    if state.is_final:
        return made.failed(answer_of(kept), failure_of(kept))
    return made.begun() | {"status": "queued" if state is MessageState.PENDING else "in_progress"}


def output_items(kept: Response) -> Items:
    """The items that an answer is made of so far."""
    output: Items = whole(kept)["output"]
    return output


def answer_of(kept: Response) -> Answer:
    """What was said, as far as it is known here."""
    if kept.output is not None:
        return answer_of_blocks(kept.output)
    content = kept.message.content
    return answer_of_blocks([{"kind": "text", "text": content}] if content else [])


def answer_of_blocks(blocks: Items) -> Answer:
    """From `blocks_of`."""
    answer = Answer()
    for block in blocks:
        names = block.get("call_id", ""), block.get("name", "")
        answer.blocks.append(Block(block["kind"], [block["text"]], *names))
    return answer


def blocks_of(answer: Answer) -> Items:
    """An answer as JSON."""
    return [
        {"kind": block.kind, "text": block.text}
        | ({"call_id": block.call_id, "name": block.name} if block.kind == "call" else {})
        for block in answer.blocks
    ]


def ending_of(message: Message) -> Ending:
    """How a whole answer ended, and what it took."""
    return ending(message.finish_reason, message.usage)


def ending(finish_reason: str | None, usage: dict[str, Any] | None) -> Ending:
    """The same, by a worker's word; what it did not count is 0."""
    told = usage or {}

    def count(within: Any, name: str) -> int:
        value = within.get(name) if isinstance(within, dict) else None
        return value if isinstance(value, int) else 0

    return Ending(
        reason_of(finish_reason),
        count(told, "prompt_tokens"),
        count(told, "completion_tokens"),
        count(told.get("prompt_tokens_details"), "cached_tokens"),
        count(told.get("completion_tokens_details"), "reasoning_tokens"),
    )


def failure_of(kept: Response) -> HttpError:
    """Why there is no answer, or no more of it."""
    if kept.failure is not None:
        return HttpError(**kept.failure)
    state = kept.message.state
    status, code = (503, "timeout") if state is MessageState.TIMEOUT else (502, "worker_failed")
    return HttpError(kept.message.error or _ENDS.get(state, "it failed"), status=status, code=code)


def as_failure(error: HttpError) -> dict[str, Any]:
    """What of an error is kept."""
    return {
        "message": error.sentence,
        "status": error.status,
        "code": error.code,
        "param": error.param,
        "retry_after_s": error.retry_after_s,
    }
