"""The published safety service: `POST /safety`, `GET /health`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from radixway.chat.safety.breaker import Breaker
from radixway.chat.safety.screen import Unjudged
from radixway.chat.safety.verdict import Verdict, read_verdict

if TYPE_CHECKING:
    from aiohttp import ClientSession

_MOST_REPLY_BYTES = 2**16


class SafetyService:
    """A `Judge` over HTTP. Belongs to one event loop."""

    def __init__(self, url: str, *, timeout_s: float, breaker: Breaker) -> None:
        """`url`: of the service; `/safety` may stand at its end or not."""
        self._url = url.rstrip("/").removesuffix("/safety")
        self._timeout_s = timeout_s
        self._breaker = breaker
        self._session: ClientSession | None = None

    async def judge(self, turns: Sequence[str], level: int) -> Verdict:
        """Of the last turn. Raises Unjudged."""
        if not self._breaker.admits(time.monotonic()):
            raise Unjudged("the safety service is left alone, as it did not answer")
        body = {"inputs": turns[-1], "parameters": {"level": level}}
        try:
            async with asyncio.timeout(self._timeout_s):
                verdict = read_verdict(await self._ask(body))
        except Unjudged:
            self._breaker.failed(time.monotonic())
            raise
        except (TimeoutError, ValueError, LookupError, TypeError, RecursionError) as error:
            self._breaker.failed(time.monotonic())
            raise Unjudged(f"the safety service: {type(error).__name__}") from None
        self._breaker.answered()
        return verdict

    async def is_well(self) -> bool:
        """Whether it says so."""
        from aiohttp import ClientError

        try:
            async with asyncio.timeout(self._timeout_s):
                async with self._connected().get(f"{self._url}/health", allow_redirects=False) as reply:
                    return reply.status == 200
        except (ClientError, OSError, TimeoutError):
            return False

    async def aclose(self) -> None:
        """Let go of its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _ask(self, body: dict[str, Any]) -> str:
        """Raises Unjudged, and what is wrong with an answer."""
        from aiohttp import ClientError

        session, url = self._connected(), f"{self._url}/safety"
        try:
            async with session.post(url, json=body, allow_redirects=False) as reply:
                if reply.status != 200:
                    raise Unjudged(f"the safety service answered with status {reply.status}")
                said = b""
                async for piece in reply.content.iter_any():
                    said += piece
                    if len(said) > _MOST_REPLY_BYTES:
                        raise Unjudged("the safety service's answer is too long")
        except (ClientError, OSError) as error:
            raise Unjudged(f"the safety service: {type(error).__name__}") from None
        outputs = json.loads(said)["outputs"]
        if not isinstance(outputs, str):
            raise TypeError("outputs")
        return outputs

    def _connected(self) -> ClientSession:
        import aiohttp

        if self._session is None:
            # Connections are not kept: one that the service closed meanwhile would fail a question.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
        return self._session
