"""Errors as clients see them."""

from collections.abc import Sequence

import msgspec

from radixway.core.http.asgi import Scope, Send, choose_request_id
from radixway.core.http.server_sent_events import write_event

_MAX_MESSAGE_CHARS = 1000
"""Characters of a message, which may quote the client's input."""

_TYPES = {401: "authentication_error", 429: "rate_limit_error"}


class HttpError(Exception):
    """A status, a code for programs and a sentence for people, in the shape of OpenAI's errors."""

    status = 500
    code: str | None = "internal_error"
    param: str | None = None
    """The request's field at fault, when one is: `messages[0].content`."""
    retry_after_s: int | None = None
    """Seconds after which to try again, if that makes sense."""
    kind: str | None = None
    """The error's type as clients read it; None: by the status."""
    quotes = True
    """The message may quote the request or answer: it goes to the client alone, and is not stored."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        param: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status or self.status
        self.code = code or self.code
        self.param = param or self.param
        self.retry_after_s = retry_after_s or self.retry_after_s

    @property
    def client_message(self) -> str:
        """The message for the client, cut to `_MAX_MESSAGE_CHARS`."""
        message = str(self)
        return message if len(message) <= _MAX_MESSAGE_CHARS else message[:_MAX_MESSAGE_CHARS] + " …"

    def body(self) -> bytes:
        """The body of an error reply, JSON."""
        by_status = _TYPES.get(self.status, "invalid_request_error" if self.status < 500 else "server_error")
        kind = self.kind or by_status
        error = {"message": self.client_message, "type": kind, "param": self.param, "code": self.code}
        return msgspec.json.encode({"error": error})

    def event(self) -> bytes:
        """The body as the last server-sent event of a stream."""
        return write_event(self.body())

    def headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of an error reply."""
        headers = [(b"content-type", b"application/json")]
        if self.retry_after_s is not None:
            headers.append((b"retry-after", b"%d" % self.retry_after_s))
        return headers


class ReshapedError(HttpError):
    """An error in the shape of another protocol: the same status and headers with its own body."""

    def __init__(
        self,
        error: HttpError,
        body: bytes,
        event: bytes | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        """`event`: the last one of a stream; None: as `error` writes it. `headers`: more than `error` has."""
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
        self._headers = headers

    def body(self) -> bytes:
        return self._body

    def event(self) -> bytes:
        return self._error.event() if self._event is None else self._event

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [*self._error.headers(), *self._headers]


class BadBodyError(HttpError):
    """The body cannot be used."""

    status = 400
    code = "invalid_value"


class MethodNotAllowedError(HttpError):
    """The path exists, for other methods."""

    status = 405
    code = "method_not_allowed"

    def __init__(self, path: str, method: str, allowed: str) -> None:
        super().__init__(f"{path} takes {allowed}, not {method}")
        self.allowed = allowed

    def headers(self) -> list[tuple[bytes, bytes]]:
        return [*super().headers(), (b"allow", self.allowed.encode("ascii"))]


async def send_error(scope: Scope, send: Send, error: HttpError) -> None:
    """Answer a request with an error; a WebSocket is closed before it is accepted: clients read 403."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008})
        return
    body = error.body()
    given = next((value for name, value in scope["headers"] if name == b"x-request-id"), None)
    request_id = (b"x-request-id", choose_request_id(given).encode("ascii"))
    headers = [request_id, *error.headers(), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
