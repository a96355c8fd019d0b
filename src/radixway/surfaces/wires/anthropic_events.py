"""An Anthropic message as a stream of events.

message_start
  content_block_start, content_block_delta …, content_block_stop      for each block
message_delta (stop reason, usage), message_stop
"""

from __future__ import annotations

from typing import Any

from radixway.parsers import CallDelta
from radixway.surfaces.wires.answer import Answer, Block, Ending, Growth, Head
from radixway.surfaces.wires.anthropic_reply import begun_message, error_of, signature, stop_of, usage_of
from radixway.surfaces.wires.base import event
from radixway.surfaces.wires.tool_input import input_text
from radixway.web import HttpError


class AnthropicEvents:
    """Writes the events of one message.

    A tool's input is sent when it is complete and known to be JSON, as Anthropic's own servers do by default:
    SDKs parse what they have after every piece, and raise.
    """

    def __init__(self, head: Head) -> None:
        self._head = head
        self._answer = Answer()

    def begin(self) -> bytes:
        """`message_start`."""
        return _event("message_start", message=begun_message(self._head))

    def grow(self, growth: Growth) -> bytes:
        """The end of the block before where a new one begins, its beginning, and what is added to it."""
        events = b""
        for part in growth.parts:
            before = self._answer.blocks[-1] if self._answer.blocks else None
            if self._answer.add(part):
                if before is not None:
                    events += self._ended(self._index - 1, before)
                events += self._begun(self._answer.blocks[-1])
            if not isinstance(part, CallDelta):
                kind = self._answer.blocks[-1].kind
                events += self._delta(self._index, {"type": f"{kind}_delta", kind: part.text})
        return events

    def end(self, ending: Ending) -> bytes:
        """The end of the last block, `message_delta`, `message_stop`."""
        events = self._ended(self._index, self._answer.blocks[-1]) if self._answer.blocks else b""
        events += _event("message_delta", delta=stop_of(self._answer, ending), usage=usage_of(ending))
        return events + _event("message_stop")

    def fail(self, error: HttpError) -> bytes:
        """`error`, which Anthropic's SDK raises."""
        return event(error_of(error), named=True)

    @property
    def _index(self) -> int:
        return len(self._answer.blocks) - 1

    def _begun(self, block: Block) -> bytes:
        empty: dict[str, Any] = {"type": block.kind, block.kind: ""}
        if block.kind == "thinking":
            empty["signature"] = ""
        if block.kind == "call":
            empty = {"type": "tool_use", "id": block.call_id, "name": block.name, "input": {}}
        return _event("content_block_start", index=self._index, content_block=empty)

    def _ended(self, index: int, block: Block) -> bytes:
        events = b""
        if block.kind == "call":
            delta = {"type": "input_json_delta", "partial_json": input_text(block.text)}
            events = self._delta(index, delta)
        if block.kind == "thinking":
            delta = {"type": "signature_delta", "signature": signature(block.text)}
            events = self._delta(index, delta)
        return events + _event("content_block_stop", index=index)

    def _delta(self, index: int, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", index=index, delta=delta)


def _event(kind: str, **fields: Any) -> bytes:
    return event({"type": kind, **fields}, named=True)
