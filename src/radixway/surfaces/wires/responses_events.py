"""A response as a stream of events, numbered from 0.

response.created, response.in_progress
  response.output_item.added
    response.content_part.added, …text.delta …, …text.done, response.content_part.done
    or response.function_call_arguments.delta …, …arguments.done
  response.output_item.done
response.completed | response.incomplete | error, response.failed
"""

from __future__ import annotations

from typing import Any, Literal

from radixway.parsers import CallDelta
from radixway.surfaces.wires.answer import AnswerDelta, ContentBlock, FinishInfo, GeneratedAnswer
from radixway.surfaces.wires.base import encode_event
from radixway.surfaces.wires.responses_reply import ResponseObject, content_part
from radixway.web import HttpError

_STEM = {
    "thinking": "response.reasoning_text",
    "text": "response.output_text",
    "call": "response.function_call_arguments",
}
"""What the events of a block's growth are called, before `.delta` and `.done`."""


class ResponsesEventWriter:
    """Writes the events of one response."""

    def __init__(self, response: ResponseObject, *, after: int = -1) -> None:
        """`after`: events up to that number are counted, but not written again."""
        self._response = response
        self._answer = GeneratedAnswer()
        self._number = 0
        self._after = after

    @property
    def event_count(self) -> int:
        """Of events so far, those that were not written again included."""
        return self._number

    @property
    def answer(self) -> GeneratedAnswer:
        """What has come so far."""
        return self._answer

    def encode_start(self, *, queued: bool = False) -> bytes:
        """`response.created`, `response.queued` where it was, `response.in_progress`."""
        begun = self._response.started()
        if not queued:
            return self._numbered_event("response.created", response=begun) + self._numbered_event(
                "response.in_progress", response=begun
            )
        waiting = {**begun, "status": "queued"}
        events = [
            self._numbered_event(f"response.{step}", response=waiting) for step in ("created", "queued")
        ]
        return b"".join(events) + self._numbered_event("response.in_progress", response=begun)

    def encode_delta(self, growth: AnswerDelta) -> bytes:
        """The end of the item before where a new one begins, its beginning, and what is added to it."""
        events = b""
        for part in growth.parts:
            before = self._answer.blocks[-1] if self._answer.blocks else None
            if self._answer.add_part(part):
                if before is not None:
                    events += self._item_done(len(self._answer.blocks) - 2, before, "completed")
                events += self._item_added()
            text = part.arguments if isinstance(part, CallDelta) else part.text
            events += self._item_delta(text) if text else b""
        return events

    def encode_end(self, ending: FinishInfo) -> bytes:
        """The end of the last item, and the whole response."""
        last = self._response.last_status(ending)
        return self.encode_close(last, f"response.{last}", self._response.finished(self._answer, ending))

    def encode_failure(self, error: HttpError) -> bytes:
        """`error`, and `response.failed` with what has come."""
        failed = self._response.failed(self._answer, error)
        return self.encode_error_event(error) + self._numbered_event("response.failed", response=failed)

    def encode_error_event(self, error: HttpError) -> bytes:
        """`error` alone: the stream ends, and the response may go on."""
        return self._numbered_event("error", code=error.code, message=error.client_message, param=error.param)

    def encode_close(
        self, last: Literal["completed", "incomplete"], kind: str, response: dict[str, Any]
    ) -> bytes:
        """The end of the last item, if there is one, and the event `kind` with the response."""
        events = b""
        if self._answer.blocks:
            events = self._item_done(len(self._answer.blocks) - 1, self._answer.blocks[-1], last)
        return events + self._numbered_event(kind, response=response)

    def encode_single_event(self, kind: str, response: dict[str, Any]) -> bytes:
        """The event `kind` with the response alone: what led there is void, or forgotten."""
        self._number = max(self._number, self._after + 1)
        return self._numbered_event(kind, response=response)

    def _item_added(self) -> bytes:
        index, block = len(self._answer.blocks) - 1, self._answer.blocks[-1]
        empty = ContentBlock(block.kind, [], block.call_id, block.name)
        item = self._response.item(index, empty, "in_progress")
        events = self._numbered_event("response.output_item.added", output_index=index, item=item)
        if block.kind == "call":
            return events
        return events + self._numbered_event(
            "response.content_part.added", **self._item_position(index), part=content_part(empty)
        )

    def _item_delta(self, text: str) -> bytes:
        index, block = len(self._answer.blocks) - 1, self._answer.blocks[-1]
        more: dict[str, Any] = {"logprobs": []} if block.kind == "text" else {}
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
            more: dict[str, Any] = {"logprobs": []} if block.kind == "text" else {}
            done = self._numbered_event(f"{stem}.done", **place, text=block.text, **more)
            done += self._numbered_event("response.content_part.done", **place, part=content_part(block))
        item = self._response.item(index, block, status)
        return done + self._numbered_event("response.output_item.done", output_index=index, item=item)

    def _item_position(self, index: int) -> dict[str, Any]:
        block = self._answer.blocks[index]
        place: dict[str, Any] = {
            "item_id": self._response.item_id(index, block),
            "output_index": index,
        }
        return place if block.kind == "call" else {**place, "content_index": 0}

    def _numbered_event(self, kind: str, **fields: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        if number <= self._after:
            return b""
        return encode_event({"type": kind, "sequence_number": number, **fields}, named=True)
