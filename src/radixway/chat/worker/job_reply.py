"""The frames with which a worker answers one job: tokens in batches, steps of plugins, and the end."""

import asyncio
from contextlib import suppress
from typing import Any

import aiohttp
import msgspec

_MAX_BATCH_TOKENS, _MAX_BATCH_S = 16, 0.015


async def send_frame(socket: aiohttp.ClientWebSocketResponse, frame: dict[str, Any]) -> None:
    """Send `frame` over `socket` as JSON text."""
    await socket.send_str(msgspec.json.encode(frame).decode())


class JobReply:
    """The reply to one job, and the `AnswerSpeaker` of a worker.

    Tokens wait until there are enough of them, or the oldest has waited long enough.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, request_id: str) -> None:
        self.text = ""
        """The text of all tokens so far."""
        self._socket = socket
        self._request_id = request_id
        self._waiting = ""
        self._tokens = 0
        self._last: tuple[int, float | None] = 0, None
        self._flushing: asyncio.Task[None] | None = None

    async def send(self, response_type: str, **fields: Any) -> None:
        """Send a frame of `response_type` about this job."""
        frame = {"request_id": self._request_id, "response_type": response_type, **fields}
        await send_frame(self._socket, frame)

    async def add_token(self, text: str, token_id: int, log_prob: float | None) -> None:
        """Add the `text` of one token."""
        self.text += text
        self._waiting += text
        self._tokens += 1
        self._last = token_id, log_prob
        if self._tokens >= _MAX_BATCH_TOKENS:
            await self.flush_tokens()
        elif self._waiting and (self._flushing is None or self._flushing.done()):
            self._flushing = asyncio.create_task(self._flush_soon())

    async def flush_tokens(self) -> None:
        """Send all waiting tokens."""
        if self._waiting:
            (token_id, log_prob), text, tokens = self._last, self._waiting, self._tokens
            self._waiting, self._tokens = "", 0
            await self.send("token", text=text, log_prob=log_prob, token_id=token_id, tokens=tokens)

    async def send_text(self, text: str) -> None:
        """Append `text` to the answer."""
        if text:
            await self.add_token(text, 0, None)

    async def send_plugin_step(self, thought: str, action: str, given: str, found: str) -> None:
        """Report a call: the `thought` before it, the `action`, its input (`given`) and result (`found`)."""
        await self.flush_tokens()
        await self.send(
            "plugin_intermediate",
            text="",
            current_plugin_thought=thought,
            current_plugin_action_taken=action,
            current_plugin_action_input=given,
            current_plugin_action_response=found,
        )

    async def _flush_soon(self) -> None:
        await asyncio.sleep(_MAX_BATCH_S)
        with suppress(aiohttp.ClientError, OSError):  # reading ends with the connection, and says so
            await self.flush_tokens()
