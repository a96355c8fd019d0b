"""A page's WebSocket whose messages arrive when a test says so: a slow line, without any waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from playwright.async_api import Page, WebSocketRoute


class HeldSocket:
    """Stands between a page and its server. `await socket.attach(page)` before the page is opened."""

    def __init__(self) -> None:
        self.held: list[str | bytes] = []
        """Messages of the server's that the page has not got yet, in order."""
        self._holds: Callable[[str], bool] | None = None
        self._arrived = asyncio.Event()
        self._page: WebSocketRoute | None = None

    async def attach(self, page: Page) -> None:
        """Stand there for every WebSocket of that page's."""
        await page.route_web_socket(lambda url: "/_nicegui_ws/" in url, self._connect)

    def hold(self, text: str) -> None:
        """From the next message of the server's with that text in it on, keep all back."""
        self._arrived.clear()
        self._holds = lambda message: text in message

    async def arrived(self) -> None:
        """Such a message is here."""
        async with asyncio.timeout(60):
            await self._arrived.wait()

    def release(self) -> None:
        """Let through what was kept back, and what comes."""
        self._holds = None
        assert self._page is not None
        held, self.held = self.held, []
        for message in held:
            self._page.send(message)

    def _connect(self, page: WebSocketRoute) -> None:
        self._page = page
        server = page.connect_to_server()
        page.on_message(server.send)
        server.on_message(self._receive)

    def _receive(self, message: str | bytes) -> None:
        assert self._page is not None
        if self.held or (self._holds is not None and self._holds(str(message))):
            self.held.append(message)
            self._arrived.set()
        else:
            self._page.send(message)
