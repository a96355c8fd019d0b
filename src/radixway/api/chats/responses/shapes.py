"""Responses and the items of their questions and answers, as they are kept and as published; public ids."""

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from radixway.chat.errors import ChatNotFoundError
from radixway.chat.records import MessageState
from radixway.chat.stored_responses import ResponseItems, StoredResponse
from radixway.core.http import HttpError, decode_query
from radixway.core.protocols import NormalizedRequest
from radixway.core.protocols.answer import (
    ContentBlock,
    GeneratedAnswer,
    ReplyMetadata,
)
from radixway.core.protocols.chat import chat_logprobs
from radixway.core.protocols.completion_parser import build_finish_info, parse_chat_logprobs
from radixway.core.protocols.request import field_error
from radixway.core.protocols.responses import asked_logprobs
from radixway.core.protocols.responses_reply import ResponseObject

RESPONSE, CONVERSATION = "resp", "conv"

_HEX = re.compile("[0-9a-f]{32}")
_PREFIXES = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "reasoning": "rs",
}


def external_id(prefix: str, inner: str) -> str:
    """Return `resp_…` for a message's id `inner`, `conv_…` for a chat's."""
    return f"{prefix}_{inner.replace('-', '')}"


def internal_id(prefix: str, given: str) -> str:
    """Return the id behind `given`. Raises ChatNotFoundError for what is no such name."""
    kind, _, name = given.partition("_")
    if kind != prefix or _HEX.fullmatch(name) is None:
        raise ChatNotFoundError("Not found")
    return str(uuid.UUID(name))


def new_item_id(kind: str) -> str:
    """Make an id for an item of this `kind` that came without one."""
    return f"{_PREFIXES.get(kind, 'item')}_{uuid.uuid4().hex}"


def build_items(given: str | Sequence[dict[str, Any]]) -> ResponseItems:
    """Build items with ids and types from `given`, a checked `input`."""
    if isinstance(given, str):
        given = [{"role": "user", "content": given}]
    return [_build_item(item) for item in given]


def items_text(items: ResponseItems) -> str:
    """Join the texts of `items`: the question in a chat."""
    texts = []
    for item in items:
        content = item.get("content") if item["type"] == "message" else item.get("output")
        parts = [{"text": content}] if isinstance(content, str) else content or []
        texts += [part["text"] for part in parts if isinstance(part.get("text"), str)]
    return "\n".join(texts)


class ItemListQuery(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Which items of a list are wanted."""

    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None
    before: str | None = None
    include: Any = None


def page_items(items: ResponseItems, query: Mapping[str, str]) -> dict[str, Any]:
    """Select from `items`, oldest first, the page that `query` asks for. Raises BadBodyError (400)."""
    wanted = decode_query(query, ItemListQuery)
    found = items if wanted.order == "asc" else items[::-1]
    if wanted.after is not None:
        found = found[_index_of_item(found, wanted.after, "after") + 1 :]
    if wanted.before is not None:
        found = found[: _index_of_item(found, wanted.before, "before")]
    data = found[: wanted.limit]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0]["id"] if data else None,
        "last_id": data[-1]["id"] if data else None,
        "has_more": len(found) > len(data),
    }


def _index_of_item(items: ResponseItems, item_id: str, param: str) -> int:
    place = next((place for place, item in enumerate(items) if item["id"] == item_id), None)
    if place is None:
        raise field_error(param, "there is no such item in this list")
    return place


def _build_item(item: dict[str, Any]) -> dict[str, Any]:
    kind = item.get("type", "message")
    complete = {"id": new_item_id(kind), "type": kind, "status": "completed"}
    complete |= {name: value for name, value in item.items() if value is not None}
    if kind == "message" and isinstance(item.get("content"), str):
        if item["role"] == "assistant":
            part = {"type": "output_text", "text": item["content"], "annotations": []}
        else:
            part = {"type": "input_text", "text": item["content"]}
        complete["content"] = [part]
    return complete


_DEFAULTS: dict[str, Any] = {
    "max_tool_calls": None,
    "prompt_cache_key": None,
    "safety_identifier": None,
    "service_tier": "default",
    "top_logprobs": 0,
}
"""Published fields that sessions' responses do not have."""
_ENDED = frozenset({MessageState.COMPLETE, MessageState.CANCELLED})
"""States of a response that is over without an error."""
_FAILURE_MESSAGES = {
    MessageState.TIMEOUT: "no worker was free in time",
    MessageState.ABORTED_BY_WORKER: "the worker broke off",
}


def stored_response_object(stored: StoredResponse) -> ResponseObject:
    """Build the object writer of a stored response `stored`."""
    message = stored.message
    conversation = {"id": external_id(CONVERSATION, message.chat_id)} if stored.is_conversation else None
    return build_response_object(
        message.id,
        message.model or "",
        message.created_at,
        stored.request,
        background=stored.background,
        conversation=conversation,
        completed_at=message.work_end_at if message.state in _ENDED else None,
    )


def build_response_object(
    message_id: str, model: str, created_at: float, request: dict[str, Any], **extra: Any
) -> ResponseObject:
    """Build the object writer of a response for the message `message_id`, stored or not."""
    head = ReplyMetadata(message_id.replace("-", ""), model, int(created_at))
    published = {name: request.get(name, default) for name, default in _DEFAULTS.items()}
    ask = NormalizedRequest(model=model, body=request, top_logprobs=asked_logprobs(request))
    return ResponseObject(ask, head, published | extra)


def render_response(stored: StoredResponse) -> dict[str, Any]:
    """Render the response `stored` as it stands."""
    made, state = stored_response_object(stored), stored.message.state
    if state is MessageState.COMPLETE:
        return made.finished(
            stored_answer(stored), build_finish_info(stored.message.finish_reason, stored.message.usage)
        )
    if state is MessageState.CANCELLED:
        return made.cancelled(stored_answer(stored))
    if state.is_final:
        return made.failed(stored_answer(stored), stored_failure(stored))
    return made.started() | {"status": "queued" if state is MessageState.PENDING else "in_progress"}


def render_output_items(stored: StoredResponse) -> ResponseItems:
    """Render the items of the answer of `stored` so far."""
    output: ResponseItems = render_response(stored)["output"]
    return output


def stored_answer(stored: StoredResponse) -> GeneratedAnswer:
    """Return the answer of `stored` as far as it has been stored."""
    if stored.output is not None:
        return answer_from_blocks(stored.output)
    content = stored.message.content
    return answer_from_blocks([{"kind": "text", "text": content}] if content else [])


def answer_from_blocks(blocks: ResponseItems) -> GeneratedAnswer:
    """Build an answer from the `blocks` of `answer_to_blocks`."""
    answer = GeneratedAnswer()
    for block in blocks:
        names = block.get("call_id", ""), block.get("name", "")
        scores = parse_chat_logprobs(block.get("logprobs", ()))
        answer.blocks.append(ContentBlock(block["kind"], [block["text"]], *names, scores))
    return answer


def answer_to_blocks(answer: GeneratedAnswer) -> ResponseItems:
    """Convert `answer` to JSON values."""
    return [
        {"kind": block.kind, "text": block.text}
        | ({"call_id": block.call_id, "name": block.name} if block.kind == "call" else {})
        | ({"logprobs": chat_logprobs(block.scores)} if block.scores else {})
        for block in answer.blocks
    ]


def stored_failure(stored: StoredResponse) -> HttpError:
    """Return the error by which `stored` failed."""
    if stored.failure is not None:
        return HttpError(**stored.failure)
    state = stored.message.state
    status, code = (503, "timeout") if state is MessageState.TIMEOUT else (502, "worker_failed")
    return HttpError(
        stored.message.error or _FAILURE_MESSAGES.get(state, "it failed"), status=status, code=code
    )


def failure_fields(error: HttpError) -> dict[str, Any]:
    """Return the fields of `error` that are stored."""
    return {
        "message": error.client_message,
        "status": error.status,
        "code": error.code,
        "param": error.param,
        "retry_after_s": error.retry_after_s,
    }
