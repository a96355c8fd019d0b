"""The contract of a wire protocol: bytes to an Ask, an Answer to bytes. No decisions, no I/O.

raw ─ read ─► Ask ─► [render, generate, parse] ─► Growth, Growth, … Ending ─► events ─► bytes
                                                   └─► Answer, Ending ──────► whole ──► bytes
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from radixway.surfaces.wires.answer import Answer, Ending, Growth, Head
from radixway.surfaces.wires.ask import Ask
from radixway.web import HttpError
from radixway.web.server_sent_events import write_event

encode = msgspec.json.Encoder().encode


def event(data: dict[str, Any], *, named: bool = False) -> bytes:
    """One server-sent event; a `named` one has its `type` as its name."""
    return write_event(encode(data), event_type=data["type"] if named else "")


class EventWriter(Protocol):
    """Writes one answer as server-sent events while it grows.

    `begin`, then `grow` any number of times, then `end`; or `fail` at any time after `begin`. How the answer
    is divided into growths changes nothing of what the events add up to. Each returns whole events, or
    nothing where there is nothing to tell.
    """

    def begin(self) -> bytes: ...

    def grow(self, growth: Growth) -> bytes: ...

    def end(self, ending: Ending) -> bytes:
        """The last events; nothing of the answer may be outstanding."""
        ...

    def fail(self, error: HttpError) -> bytes:
        """The last events of an answer that breaks off."""
        ...


class Wire(Protocol):
    """One protocol. Without state: one instance serves all requests."""

    name: str

    def read(self, raw: bytes) -> Ask:
        """What a body asks. Raises BadBody (400) naming the field at fault."""
        ...

    def reply_id(self, head: Head) -> str:
        """The id by which the client will know the reply."""
        ...

    def whole(self, ask: Ask, head: Head, answer: Answer, ending: Ending) -> bytes:
        """The reply to a request that does not stream; JSON."""
        ...

    def events(self, ask: Ask, head: Head) -> EventWriter:
        """A writer for the reply to a request that does."""
        ...

    def error(self, error: HttpError) -> bytes:
        """The body of an error reply, in the protocol's own shape; JSON."""
        ...
