"""A request on its way through the gateway, whatever protocol it came in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from radixway.telemetry import Journal

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


@dataclass(slots=True, eq=False)
class Request:
    """What a surface understood of a request, and what the road adds to it.

    The body travels as the bytes that came. It is encoded again only when a middleware edits it, so that
    fields unknown to us, their order and their spelling reach the worker untouched.
    """

    id: str
    surface: str
    """Which surface it came through: `openai.chat`, `openai.completions`, `generate` …"""
    path: str
    """Path and query at the worker."""
    raw: bytes
    model: str | None
    """The model asked for; None where the protocol names none."""
    stream: bool
    journal: Journal
    deadline: float
    """Event loop time after which nobody waits for the answer any more."""
    headers: tuple[tuple[bytes, bytes], ...] = ()
    """The client's headers that travel on to the worker, names in lower case."""
    tried: list[str] = field(default_factory=list)
    """Names of the workers that failed this request already."""
    _body: dict[str, Any] | None = None
    _edited: bool = False

    @property
    def body(self) -> dict[str, Any]:
        """The decoded body, for reading. Change it with `edit`."""
        if self._body is None:
            self._body = _decode(self.raw)
        return self._body

    def edit(self, **fields: Any) -> None:
        """Set top-level fields of the body; a value of `msgspec.UNSET` removes the field."""
        body = dict(self.body)
        body.update(fields)
        self._body = {key: value for key, value in body.items() if value is not msgspec.UNSET}
        self._edited = True

    def payload(self) -> bytes:
        """The body to send: the bytes that came, or the edited body encoded once."""
        if self._edited:
            self.raw = _encode(self._body)
            self._edited = False
        return self.raw
