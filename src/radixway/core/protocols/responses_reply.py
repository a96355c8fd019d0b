"""The `response` object with its output items, whole and as a stream of events, numbered from 0.

response.created, response.in_progress
  response.output_item.added
    response.content_part.added, …text.delta …, …text.done, response.content_part.done
    or response.function_call_arguments.delta …, …arguments.done
  response.output_item.done
response.completed | response.incomplete | error, response.failed
"""

import base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from radixway.core.http import HttpError
from radixway.core.parsers import CallDelta
from radixway.core.protocols.answer import (
    AnswerDelta,
    ContentBlock,
    FinishInfo,
    GeneratedAnswer,
    ReplyMetadata,
)
from radixway.core.protocols.base import encode_event
from radixway.core.protocols.chat import chat_logprobs
from radixway.core.protocols.request import NormalizedRequest

Status = Literal["in_progress", "completed", "incomplete"]
"""State of an item."""

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
"""Request fields that a response repeats, with their defaults."""


class ResponseObject:
    """Makes the objects of one response at each stage of it."""

    def __init__(
        self,
        ask: NormalizedRequest,
        head: ReplyMetadata,
        more: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """`more`: further fields, or other values of these."""
        self._head = head
        self._tells_logprobs = ask.top_logprobs is not None
        self._sealed = _SEALED in (ask.body.get("include") or ())
        self._echo = {
            name: default if (given := ask.body.get(name)) is None else given
            for name, default in _ECHOED.items()
        } | dict(more)

    def started(self) -> dict[str, Any]:
        """The response before anything of it is there."""
        return self._response_object("in_progress", [])

    def finished(self, answer: GeneratedAnswer, ending: FinishInfo) -> dict[str, Any]:
        """Build the response with everything in `answer`."""
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
        """Build the response with `answer` as far as it came before it was cancelled."""
        return self._response_object("cancelled", self._output_items(answer, "incomplete"))

    def failed(self, answer: GeneratedAnswer, error: HttpError) -> dict[str, Any]:
        """Build the response with `answer` as far as it came before `error`."""
        response = self._response_object("failed", self._output_items(answer, "incomplete"))
        response["error"] = {"code": "server_error", "message": error.client_message}
        return response

    def item(self, index: int, block: ContentBlock, status: Status) -> dict[str, Any]:
        """Build the output item of `block`; its ids follow from the response's and the call's."""
        item: dict[str, Any] = {"id": self.item_id(index, block), "status": status}
        if block.kind == "call":
            call = {"call_id": block.call_id, "name": block.name, "arguments": block.text}
            return {"type": "function_call", **item, **call}
        part = self.content_part(block)
        item["content"] = [part] if part["text"] or status != "in_progress" else []
        if block.kind == "text":
            return {"type": "message", "role": "assistant", **item}
        if self._sealed:  # for clients that keep nothing else of it; it is no secret
            item["encrypted_content"] = base64.b64encode(block.text.encode()).decode("ascii")
        return {"type": "reasoning", "summary": [], **item}

    def content_part(self, block: ContentBlock) -> dict[str, Any]:
        """Build the one content part of `block`, a thinking or text item."""
        if block.kind == "thinking":
            return {"type": "reasoning_text", "text": block.text}
        logprobs = self.logprobs(block)
        return {"type": "output_text", "text": block.text, "annotations": [], "logprobs": logprobs}

    def logprobs(self, block: ContentBlock, start: int = 0) -> list[dict[str, Any]]:
        """Build the log-probabilities of `block` from its token `start` on; none where none are asked for."""
        return chat_logprobs(block.scores[start:]) if self._tells_logprobs else []

    def item_id(self, index: int, block: ContentBlock) -> str:
        """Return the id of the output item `index`."""
        if block.kind == "call":
            return f"fc_{block.call_id.removeprefix('call_')}"
        return f"{'msg' if block.kind == 'text' else 'rs'}_{self._head.id}_{index}"

    def last_status(self, ending: FinishInfo) -> Literal["completed", "incomplete"]:
        """Return the status of the response and of its last item, by `ending`."""
        return "completed" if ending.reason == "stop" else "incomplete"

    def _output_items(self, answer: GeneratedAnswer, last: Status) -> list[dict[str, Any]]:
        end = len(answer.blocks) - 1
        return [
            self.item(index, block, last if index == end else "completed")
            for index, block in enumerate(answer.blocks)
        ]

    def _response_object(self, status: str, output: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"resp_{self._head.id}",  # which a later request gives as `previous_response_id`
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


_STEM = {
    "thinking": "response.reasoning_text",
    "text": "response.output_text",
    "call": "response.function_call_arguments",
}
"""Event names of a growing block, before `.delta` and `.done`."""


class ResponsesEventWriter:
    """Writes the events of one response."""

    def __init__(self, response: ResponseObject, *, after: int = -1) -> None:
        """`after`: events up to that number are counted, but not written again."""
        self._response = response
        self._after = after
        self.answer = GeneratedAnswer()
        self.event_count = 0
        """Events so far, those that were not written again included."""

    def encode_start(self, *, queued: bool = False) -> bytes:
        """`response.created`, `response.queued` where it was, `response.in_progress`."""
        begun = self._response.started()
        events = b""
        for step in ("created", "queued") if queued else ("created",):
            response = {**begun, "status": "queued"} if queued else begun
            events += self._numbered_event(f"response.{step}", response=response)
        return events + self._numbered_event("response.in_progress", response=begun)

    def encode_delta(self, growth: AnswerDelta) -> bytes:
        """Encode `growth`; where a new item begins, the end of the one before and its beginning first."""
        events = b""
        self.answer.add_scores(growth.scores)
        for part in growth.parts:
            before = self.answer.blocks[-1] if self.answer.blocks else None
            told = len(before.scores) if before is not None else 0
            if self.answer.add_part(part):
                if before is not None:
                    events += self._item_done(len(self.answer.blocks) - 2, before, "completed")
                events += self._item_added()
                told = 0
            text = part.arguments if isinstance(part, CallDelta) else part.text
            events += self._item_delta(text, told) if text else b""
        return events

    def encode_end(self, ending: FinishInfo) -> bytes:
        """Encode the end of the last item, and the whole response, with `ending`."""
        last = self._response.last_status(ending)
        return self.encode_close(last, f"response.{last}", self._response.finished(self.answer, ending))

    def encode_failure(self, error: HttpError) -> bytes:
        """Encode `error`, and `response.failed` with what has come."""
        failed = self._response.failed(self.answer, error)
        return self.encode_error_event(error) + self._numbered_event("response.failed", response=failed)

    def encode_error_event(self, error: HttpError) -> bytes:
        """Encode `error` alone: the stream ends, and the response may go on."""
        return self._numbered_event("error", code=error.code, message=error.client_message, param=error.param)

    def encode_close(
        self, last: Literal["completed", "incomplete"], kind: str, response: dict[str, Any]
    ) -> bytes:
        """The end of the last item, if there is one, and the event `kind` with the response."""
        events = b""
        if self.answer.blocks:
            events = self._item_done(len(self.answer.blocks) - 1, self.answer.blocks[-1], last)
        return events + self._numbered_event(kind, response=response)

    def encode_single_event(self, kind: str, response: dict[str, Any]) -> bytes:
        """The event `kind` with the response alone: what led there is void, or forgotten."""
        self.event_count = max(self.event_count, self._after + 1)
        return self._numbered_event(kind, response=response)

    def _item_added(self) -> bytes:
        index, block = len(self.answer.blocks) - 1, self.answer.blocks[-1]
        empty = ContentBlock(block.kind, [], block.call_id, block.name)
        item = self._response.item(index, empty, "in_progress")
        events = self._numbered_event("response.output_item.added", output_index=index, item=item)
        if block.kind == "call":
            return events
        return events + self._numbered_event(
            "response.content_part.added",
            **self._item_position(index),
            part=self._response.content_part(empty),
        )

    def _item_delta(self, text: str, told: int) -> bytes:
        """Return the event of `text`, with the log-probabilities of the block behind the first `told`."""
        index, block = len(self.answer.blocks) - 1, self.answer.blocks[-1]
        more = {"logprobs": self._response.logprobs(block, told)} if block.kind == "text" else {}
        return self._numbered_event(
            f"{_STEM[block.kind]}.delta", **self._item_position(index), delta=text, **more
        )

    def _item_done(
        self, index: int, block: ContentBlock, status: Literal["completed", "incomplete"]
    ) -> bytes:
        place, stem = self._item_position(index), _STEM[block.kind]
        if block.kind == "call":
            done = self._numbered_event(f"{stem}.done", **place, name=block.name, arguments=block.text)
        else:
            more = {"logprobs": self._response.logprobs(block)} if block.kind == "text" else {}
            done = self._numbered_event(f"{stem}.done", **place, text=block.text, **more)
            done += self._numbered_event(
                "response.content_part.done", **place, part=self._response.content_part(block)
            )
        item = self._response.item(index, block, status)
        return done + self._numbered_event("response.output_item.done", output_index=index, item=item)

    def _item_position(self, index: int) -> dict[str, Any]:
        block = self.answer.blocks[index]
        place = {"item_id": self._response.item_id(index, block), "output_index": index}
        return place if block.kind == "call" else {**place, "content_index": 0}

    def _numbered_event(self, kind: str, **fields: Any) -> bytes:
        number, self.event_count = self.event_count, self.event_count + 1
        if number <= self._after:
            return b""
        return encode_event({"type": kind, "sequence_number": number, **fields}, named=True)
