"""uvicorn's WebSockets, ended even if the client does not read."""

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol


class WebSocketProtocol(WebSocketsSansIOProtocol):
    """uvicorn closes a connection once all is sent: never, if the client does not read."""

    async def run_asgi(self) -> None:
        try:
            await super().run_asgi()
        finally:
            self._schedule_abort()

    def keepalive_timeout(self) -> None:
        super().keepalive_timeout()
        self._schedule_abort()

    def _schedule_abort(self) -> None:
        self.loop.call_later(self.close_timeout, self.transport.abort)
