"""The handlers of the paths under `/sessions/{id}/v1` that agents call, served raw."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

from radixway.api.protocols import (
    AnthropicAdapter,
    ChatAdapter,
    CompletionsAdapter,
    ProtocolAdapter,
    ResponsesAdapter,
)
from radixway.api.request_handler import RequestHandler
from radixway.api.sessions.answer_stream import AnswerEvents
from radixway.core.config import ConfigError
from radixway.core.http import HttpError, ReshapedError, Scope
from radixway.core.pipeline import Endpoint, Pipeline, ReplyForm, Request

_PATH = re.compile(r"/sessions/[^/]+(/.+)")
_WIRES: dict[ReplyForm, ProtocolAdapter] = {
    ReplyForm.CHAT: ChatAdapter(),
    ReplyForm.COMPLETION: CompletionsAdapter(),
    ReplyForm.RESPONSE: ResponsesAdapter(),
    ReplyForm.MESSAGE: AnthropicAdapter(),
}


class SessionRequestHandler(RequestHandler):
    """A request handler whose errors are in its protocol's shape."""

    def __init__(
        self, endpoint: Endpoint, wire: ProtocolAdapter, road: Pipeline, *more: Any, **limits: Any
    ) -> None:
        super().__init__(endpoint, road, *more, **limits)
        self._wire = wire

    def shape_error(self, request: Request, error: HttpError) -> HttpError:
        stream = next((chunks for chunks in request.open_streams if isinstance(chunks, AnswerEvents)), None)
        return ReshapedError(
            error,
            self._wire.encode_error_body(error),
            None if stream is None else stream.encode_failure(error),
        )


class SessionCallRouter:
    """Finds the handler for a path under `/sessions/{id}`."""

    def __init__(
        self, endpoints: Iterable[Endpoint], make: Callable[[Endpoint, ProtocolAdapter], RequestHandler]
    ) -> None:
        """`make` builds the exchange of one of `endpoints`. Raises ConfigError where nobody can."""
        self._exchanges: dict[str, RequestHandler] = {}
        for endpoint in endpoints:
            wire = _WIRES.get(endpoint.reply_form)
            if wire is None:
                raise ConfigError(
                    f"endpoint {endpoint.name}: sessions cannot reply as {endpoint.reply_form.value}"
                )
            exchange = make(endpoint, wire)
            for path in endpoint.paths_in_session:
                self._exchanges[path] = exchange

    def find_handler(self, scope: Scope) -> RequestHandler | None:
        """Return the handler, if the path of `scope` is an agent's."""
        path: str = scope["path"]
        if not path.startswith("/sessions/"):
            return None
        found = _PATH.fullmatch(path)
        return None if found is None else self._exchanges.get(found[1])
