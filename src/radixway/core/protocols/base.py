"""The contract of a wire protocol: bytes to a request, an answer to bytes. No decisions, no I/O.

raw ─ parse_request ─► NormalizedRequest ─► [render, generate, parse]
      ─► AnswerDelta, AnswerDelta, … FinishInfo ─► EventWriter ──► bytes
      └─► GeneratedAnswer, FinishInfo ───────────► encode_reply ─► bytes
"""

from typing import Any, Protocol

import msgspec

from radixway.core.http import HttpError
from radixway.core.http.server_sent_events import write_event
from radixway.core.protocols.answer import AnswerDelta, FinishInfo, GeneratedAnswer, ReplyMetadata
from radixway.core.protocols.request import NormalizedRequest

encode = msgspec.json.Encoder().encode


def encode_event(data: dict[str, Any], *, named: bool = False) -> bytes:
    """Encode a server-sent event; a `named` one has its `type` as its name."""
    return write_event(encode(data), event_type=data["type"] if named else "")


class EventWriter(Protocol):
    """Writes one answer as server-sent events while it grows.

    `encode_start`, then `encode_delta` any number of times, then `encode_end`; or `encode_failure` at any
    time after `encode_start`. How the answer is divided changes nothing of what the events add up to. Each
    returns whole events, or nothing where there is nothing to tell.
    """

    def encode_start(self) -> bytes: ...

    def encode_delta(self, growth: AnswerDelta) -> bytes: ...

    def encode_end(self, ending: FinishInfo) -> bytes:
        """Encode the last events, with `ending`; nothing of the answer may be outstanding."""
        ...

    def encode_failure(self, error: HttpError) -> bytes:
        """Encode the last events of an answer that `error` breaks off, which the protocol's SDK raises."""
        ...


class ProtocolAdapter(Protocol):
    """A wire protocol. It has no state: one instance serves all requests."""

    name: str

    def parse_request(self, raw: bytes) -> NormalizedRequest:
        """Parse a `raw` body. Raises BadBodyError (400) naming the field at fault."""
        ...

    def encode_reply(
        self, ask: NormalizedRequest, head: ReplyMetadata, answer: GeneratedAnswer, ending: FinishInfo
    ) -> bytes:
        """Encode the reply to `ask`, which does not stream, as JSON."""
        ...

    def create_event_writer(self, ask: NormalizedRequest, head: ReplyMetadata) -> EventWriter:
        """Create a writer for the reply to `ask`, which streams."""
        ...

    def encode_error_body(self, error: HttpError) -> bytes:
        """Encode the body of a reply with `error`, in the protocol's own shape; JSON."""
        ...


class OpenAIErrors:
    """Errors as OpenAI's protocols write them: `{"error": {"message", "type", "param", "code"}}`."""

    def encode_error_body(self, error: HttpError) -> bytes:
        return error.body()

    def encode_failure(self, error: HttpError) -> bytes:
        return error.event()
