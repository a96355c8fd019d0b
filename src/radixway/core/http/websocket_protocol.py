"""uvicorn's WebSockets, ended even if the client does not read."""

from uvicorn.protocols.http.httptools_impl import STATUS_LINE
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from radixway.core.http.errors import HttpError


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn closes a connection once all is sent: never, if the client does not read.

    A request that opens no WebSocket is answered: uvicorn would neither answer it nor end the connection.
    """

    def data_received(self, data: bytes) -> None:
        super().data_received(data)  # the first data are the whole request
        if not self.handshake_initiated and not self.transport.is_closing():
            self._refuse_handshake()

    async def run_asgi(self) -> None:
        try:
            await super().run_asgi()
        finally:
            self._schedule_abort()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._schedule_abort()

    def _refuse_handshake(self) -> None:
        """Answer a request with a body, or with a line longer than the package `websockets` reads."""
        answer = b"".join(self.conn.data_to_send())
        if not answer:
            error: HttpError = HttpError(
                "this opens no WebSocket: such a request has no body", status=400, code="invalid_request"
            )
            body = error.body()
            headers = [*error.headers(), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
            lines = b"".join(b"%b: %b\r\n" % header for header in headers)
            answer = b"%b%b\r\n%b" % (STATUS_LINE[400], lines, body)
        self.transport.write(answer)
        self.transport.close()
        self._schedule_abort()

    def _schedule_abort(self) -> None:
        self.loop.call_later(self.close_timeout, self.transport.abort)
