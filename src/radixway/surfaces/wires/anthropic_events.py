"""An Anthropic message as a stream of events.

message_start
  content_block_start, content_block_delta …, content_block_stop      for each block
message_delta (stop reason, usage), message_stop
"""

from __future__ import annotations

from typing import Any

from radixway.parsers import CallDelta
from radixway.surfaces.wires.answer import (
    AnswerDelta,
    ContentBlock,
    FinishInfo,
    GeneratedAnswer,
    ReplyMetadata,
)
from radixway.surfaces.wires.anthropic_reply import (
    error_object,
    message_start_object,
    stop_fields,
    thinking_signature,
    usage_object,
)
from radixway.surfaces.wires.base import encode_event
from radixway.surfaces.wires.tool_input import tool_input_text
from radixway.web import HttpError


class AnthropicEventWriter:
    """Writes the events of one message.

    A tool's input is sent when it is complete and known to be JSON, as Anthropic's own servers do by default:
    SDKs parse what they have after every piece, and raise.
    """

    def __init__(self, head: ReplyMetadata) -> None:
        self._head = head
        self._answer = GeneratedAnswer()

    def encode_start(self) -> bytes:
        """`message_start`."""
        return _named_event("message_start", message=message_start_object(self._head))

    def encode_delta(self, growth: AnswerDelta) -> bytes:
        """The end of the block before where a new one begins, its beginning, and what is added to it."""
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
        """The end of the last block, `message_delta`, `message_stop`."""
        events = self._block_stop(self._block_index, self._answer.blocks[-1]) if self._answer.blocks else b""
        events += _named_event(
            "message_delta", delta=stop_fields(self._answer, ending), usage=usage_object(ending)
        )
        return events + _named_event("message_stop")

    def encode_failure(self, error: HttpError) -> bytes:
        """`error`, which Anthropic's SDK raises."""
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
            delta = {"type": "input_json_delta", "partial_json": tool_input_text(block.text)}
            events = self._block_delta(index, delta)
        if block.kind == "thinking":
            delta = {"type": "signature_delta", "signature": thinking_signature(block.text)}
            events = self._block_delta(index, delta)
        return events + _named_event("content_block_stop", index=index)

    def _block_delta(self, index: int, delta: dict[str, Any]) -> bytes:
        return _named_event("content_block_delta", index=index, delta=delta)


def _named_event(kind: str, **fields: Any) -> bytes:
    return encode_event({"type": kind, **fields}, named=True)
