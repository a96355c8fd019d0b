"""Sends tokens to the chat server in batches, and steps of plugins."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import aiohttp
import msgspec

_BATCH, _BATCH_S = 16, 0.015


async def send_frame(socket: aiohttp.ClientWebSocketResponse, frame: dict[str, Any]) -> None:
    """Send `frame` over `socket` as JSON text."""
    await socket.send_str(msgspec.json.encode(frame).decode())


class TokenBatcher:
    """Tokens waiting to be sent: once there are enough, or the oldest has waited long enough."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, request_id: str) -> None:
        self._socket = socket
        self._request_id = request_id
        self._text = ""
        self._tokens = 0
        self._last: tuple[int, float | None] = 0, None
        self._flushing: asyncio.Task[None] | None = None

    async def add_token(self, text: str, token_id: int, log_prob: float | None) -> None:
        """Add the `text` of one token."""
        self._text += text
        self._tokens += 1
        self._last = token_id, log_prob
        if self._tokens >= _BATCH:
            await self.flush_tokens()
        elif self._text and (self._flushing is None or self._flushing.done()):
            self._flushing = asyncio.create_task(self._flush_soon())

    async def _flush_soon(self) -> None:
        await asyncio.sleep(_BATCH_S)
        with suppress(aiohttp.ClientError, OSError):  # reading ends with the connection, and says so
            await self.flush_tokens()

    async def flush_tokens(self) -> None:
        """Send all waiting tokens."""
        if self._text:
            token_id, log_prob = self._last
            told = {"text": self._text, "log_prob": log_prob, "token_id": token_id, "tokens": self._tokens}
            self._text, self._tokens = "", 0
            await send_frame(self._socket, {"request_id": self._request_id, "response_type": "token", **told})


class WorkerSpeaker:
    """The `AnswerSpeaker` of a worker: sends an answer with a plugin to the server."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, request_id: str) -> None:
        self.told = ""
        self.batch = TokenBatcher(socket, request_id)
        self._socket = socket
        self._request_id = request_id

    async def send_text(self, text: str) -> None:
        """Append `text` to the answer."""
        if text:
            self.told += text
            await self.batch.add_token(text, 0, None)

    async def send_plugin_step(self, thought: str, action: str, given: str, found: str) -> None:
        """Report a call: the `thought` before it, the `action`, its input (`given`) and result (`found`)."""
        await self.batch.flush_tokens()
        step = {
            "current_plugin_thought": thought,
            "current_plugin_action_taken": action,
            "current_plugin_action_input": given,
            "current_plugin_action_response": found,
        }
        frame = {"request_id": self._request_id, "response_type": "plugin_intermediate", "text": "", **step}
        await send_frame(self._socket, frame)
