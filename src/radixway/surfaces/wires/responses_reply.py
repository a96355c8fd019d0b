"""The `response` object and its output items."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from radixway.surfaces.wires.answer import ContentBlock, FinishInfo, GeneratedAnswer, ReplyMetadata
from radixway.surfaces.wires.ask import NormalizedRequest
from radixway.surfaces.wires.responses_items import encode_reasoning
from radixway.web import HttpError

Status = Literal["in_progress", "completed", "incomplete"]
"""Of an item."""

_SEALED = "reasoning.encrypted_content"
_INCOMPLETE = {"length": "max_output_tokens", "abort": "abort", "content_filter": "content_filter"}
_ECHOED: dict[str, Any] = {
    "instructions": None,
    "previous_response_id": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "store": True,
    "temperature": 1.0,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": 1.0,
    "truncation": "disabled",
    "user": None,
}
"""What a response repeats of its request, and what it says where that said nothing."""


class ResponseObject:
    """Makes the objects of one response at each stage of it."""

    def __init__(
        self,
        ask: NormalizedRequest,
        head: ReplyMetadata,
        response_id: str,
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`more`: further fields, or other values of these."""
        self._head = head
        self._id = response_id
        self._sealed = _SEALED in (ask.body.get("include") or ())
        self._echo = {
            name: default if (given := ask.body.get(name)) is None else given
            for name, default in _ECHOED.items()
        } | dict(more)

    def started(self) -> dict[str, Any]:
        """The response before anything of it is there."""
        return self._response_object("in_progress", [])

    def finished(self, answer: GeneratedAnswer, ending: FinishInfo) -> dict[str, Any]:
        """The response with everything in it."""
        last = self.last_status(ending)
        response = self._response_object(last, self._output_items(answer, last))
        if last == "incomplete":
            response["incomplete_details"] = {"reason": _INCOMPLETE[ending.reason]}
        response["usage"] = {
            "input_tokens": ending.prompt_tokens,
            "input_tokens_details": {"cached_tokens": ending.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": ending.completion_tokens,
            "output_tokens_details": {"reasoning_tokens": ending.reasoning_tokens},
            "total_tokens": ending.prompt_tokens + ending.completion_tokens,
        }
        return response

    def cancelled(self, answer: GeneratedAnswer) -> dict[str, Any]:
        """The response as far as it came before its client had enough."""
        return self._response_object("cancelled", self._output_items(answer, "incomplete"))

    def failed(self, answer: GeneratedAnswer, error: HttpError) -> dict[str, Any]:
        """The response as far as it came."""
        response = self._response_object("failed", self._output_items(answer, "incomplete"))
        response["error"] = {"code": "server_error", "message": error.client_message}
        return response

    def item(self, index: int, block: ContentBlock, status: Status) -> dict[str, Any]:
        """A block as output item; its ids follow from the response's and the call's."""
        if block.kind == "call":
            return {
                "type": "function_call",
                "id": self.item_id(index, block),
                "call_id": block.call_id,
                "name": block.name,
                "arguments": block.text,
                "status": status,
            }
        part = content_part(block)
        content = [part] if part["text"] or status != "in_progress" else []
        if block.kind == "text":
            return {
                "type": "message",
                "id": self.item_id(index, block),
                "role": "assistant",
                "content": content,
                "status": status,
            }
        item = {
            "type": "reasoning",
            "id": self.item_id(index, block),
            "summary": [],
            "content": content,
            "status": status,
        }
        return {**item, "encrypted_content": encode_reasoning(block.text)} if self._sealed else item

    def item_id(self, index: int, block: ContentBlock) -> str:
        """The id of an output item."""
        if block.kind == "call":
            return f"fc_{block.call_id.removeprefix('call_')}"
        return f"{'msg' if block.kind == 'text' else 'rs'}_{self._head.id}_{index}"

    def last_status(self, ending: FinishInfo) -> Literal["completed", "incomplete"]:
        """Of the response, and of its last item."""
        return "completed" if ending.reason == "stop" else "incomplete"

    def _output_items(self, answer: GeneratedAnswer, last: Status) -> list[dict[str, Any]]:
        end = len(answer.blocks) - 1
        return [
            self.item(index, block, last if index == end else "completed")
            for index, block in enumerate(answer.blocks)
        ]

    def _response_object(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._head.created,
            "status": status,
            "model": self._head.model,
            "output": output,
            "error": None,
            "incomplete_details": None,
            "usage": None,
            **self._echo,
        }


def content_part(block: ContentBlock) -> dict[str, Any]:
    """The one content part of a thinking or text item."""
    if block.kind == "thinking":
        return {"type": "reasoning_text", "text": block.text}
    return {"type": "output_text", "text": block.text, "annotations": [], "logprobs": []}
