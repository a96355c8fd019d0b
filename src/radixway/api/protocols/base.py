"""The contract of a wire protocol: bytes to an Ask, an Answer to bytes. No decisions, no I/O.

raw ─ read ─► Ask ─► [render, generate, parse] ─► Growth, Growth, … Ending ─► events ─► bytes
                                                   └─► Answer, Ending ──────► whole ──► bytes
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from radixway.api.protocols.answer import AnswerDelta, FinishInfo, GeneratedAnswer, ReplyMetadata
from radixway.api.protocols.request import NormalizedRequest
from radixway.core.http import HttpError
from radixway.core.http.server_sent_events import write_event

encode = msgspec.json.Encoder().encode


def encode_event(data: dict[str, Any], *, named: bool = False) -> bytes:
    """One server-sent event; a `named` one has its `type` as its name."""
    return write_event(encode(data), event_type=data["type"] if named else "")


class EventWriter(Protocol):
    """Writes one answer as server-sent events while it grows.

    `begin`, then `grow` any number of times, then `end`; or `fail` at any time after `begin`. How the answer
    is divided into growths changes nothing of what the events add up to. Each returns whole events, or
    nothing where there is nothing to tell.
    """

    def encode_start(self) -> bytes: ...

    def encode_delta(self, growth: AnswerDelta) -> bytes: ...

    def encode_end(self, ending: FinishInfo) -> bytes:
        """The last events; nothing of the answer may be outstanding."""
        ...

    def encode_failure(self, error: HttpError) -> bytes:
        """The last events of an answer that breaks off."""
        ...


class ProtocolAdapter(Protocol):
    """One protocol. Without state: one instance serves all requests."""

    name: str

    def parse_request(self, raw: bytes) -> NormalizedRequest:
        """What a body asks. Raises BadBody (400) naming the field at fault."""
        ...

    def reply_id(self, head: ReplyMetadata) -> str:
        """The id by which the client will know the reply."""
        ...

    def encode_reply(
        self, ask: NormalizedRequest, head: ReplyMetadata, answer: GeneratedAnswer, ending: FinishInfo
    ) -> bytes:
        """The reply to a request that does not stream; JSON."""
        ...

    def create_event_writer(self, ask: NormalizedRequest, head: ReplyMetadata) -> EventWriter:
        """A writer for the reply to a request that does."""
        ...

    def encode_error_body(self, error: HttpError) -> bytes:
        """The body of an error reply, in the protocol's own shape; JSON."""
        ...
