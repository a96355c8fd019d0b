"""The paths under `/sessions/{id}/v1` that agents call, served raw."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import msgspec

from radixway.pipeline import Next, Request
from radixway.surfaces.agents.answer_events import AnswerEvents
from radixway.surfaces.exchange import (
    Asked,
    Exchange,
    Milliseconds,
    ModelName,
    Priority,
    Staleness,
    Version,
    named_user,
)
from radixway.surfaces.wires import AnthropicWire, ChatWire, CompletionsWire, ResponsesWire, Wire
from radixway.web import HttpError, Scope, read_json

_PATH = re.compile(r"/sessions/[^/]+/v1/(chat/completions|completions|responses|messages)")
_WIRES: dict[str, Wire] = {
    "chat/completions": ChatWire(),
    "completions": CompletionsWire(),
    "responses": ResponsesWire(),
    "messages": AnthropicWire(),
}


class _Body(msgspec.Struct):
    model: ModelName | None = None
    stream: bool | None = None
    priority: Priority = None
    ttft_slo_ms: Milliseconds = None
    max_staleness: Staleness = None
    min_weight_version: Version = None
    user: Any = None
    safety_identifier: Any = None
    metadata: Any = None
    """Anthropic's has `user_id`."""


class AgentSurface:
    """One protocol, as far as the gateway itself must read it."""

    methods: tuple[str, ...] = ("POST",)
    _decoder = msgspec.json.Decoder(_Body)

    def __init__(self, wire: Wire) -> None:
        self.name = f"session.{wire.name}"

    def read(self, raw: bytes) -> Asked:
        body = read_json(self._decoder, raw)
        return Asked(
            body.model,
            bool(body.stream),
            body.priority,
            body.ttft_slo_ms,
            body.max_staleness,
            body.min_weight_version,
            user=named_user(body.user, body.safety_identifier, _user_id_of(body.metadata)),
        )


def _user_id_of(metadata: Any) -> Any:
    return metadata.get("user_id") if isinstance(metadata, dict) else None


class AgentExchange(Exchange):
    """An exchange whose errors are in its protocol's shape."""

    def __init__(self, wire: Wire, road: Next, *more: Any, **limits: Any) -> None:
        super().__init__(AgentSurface(wire), road, *more, **limits)
        self._wire = wire

    def shaped(self, request: Request, error: HttpError) -> HttpError:
        stream = next((chunks for chunks in request.opened if isinstance(chunks, AnswerEvents)), None)
        return _Shaped(error, self._wire.error(error), None if stream is None else stream.fail(error))


class _Shaped(HttpError):
    """An error in the words of a protocol."""

    def __init__(self, error: HttpError, body: bytes, event: bytes | None) -> None:
        super().__init__(
            str(error),
            status=error.status,
            code=error.code,
            param=error.param,
            retry_after_s=error.retry_after_s,
        )
        self._error = error
        self._body = body
        self._event = event

    def body(self) -> bytes:
        return self._body

    def event(self) -> bytes:
        return self._error.event() if self._event is None else self._event

    def headers(self) -> list[tuple[bytes, bytes]]:
        return self._error.headers()


class AgentCalls:
    """Finds the exchange for a path."""

    def __init__(self, make: Callable[[Wire], Exchange]) -> None:
        self._exchanges = {path: make(wire) for path, wire in _WIRES.items()}

    def find(self, scope: Scope) -> Exchange | None:
        """The one that answers, if the path is an agent's."""
        path: str = scope["path"]
        if not path.startswith("/sessions/"):
            return None
        found = _PATH.fullmatch(path)
        return None if found is None else self._exchanges[found[1]]
