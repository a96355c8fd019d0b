"""The published safety service, `POST /safety` and `GET /health`, behind a circuit breaker."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from radixway.chat.safety.safety_screen import SafetyUnavailableError
from radixway.chat.safety.safety_verdict import SafetyVerdict, parse_verdict
from radixway.core.circuit_breaker import ConsecutiveFailureBreaker

if TYPE_CHECKING:
    from aiohttp import ClientSession

_MAX_REPLY_BYTES = 2**16


class SafetyService:
    """A `SafetyJudge` over HTTP. Belongs to one event loop."""

    def __init__(self, url: str, *, timeout_s: float, breaker: ConsecutiveFailureBreaker) -> None:
        """`url`: of the service; `/safety` may stand at its end or not."""
        self._url = url.rstrip("/").removesuffix("/safety")
        self._timeout_s = timeout_s
        self._breaker = breaker
        self._session: ClientSession | None = None

    async def judge(self, turns: Sequence[str], level: int) -> SafetyVerdict:
        """Judge the last of `turns` at `level`. Raises SafetyUnavailableError."""
        if not self._breaker.admits(time.monotonic()):
            raise SafetyUnavailableError("the safety service is paused after failures")
        body = {"inputs": turns[-1], "parameters": {"level": level}}
        try:
            async with asyncio.timeout(self._timeout_s):
                verdict = parse_verdict(await self._post_question(body))
        except SafetyUnavailableError:
            self._breaker.record_failure(time.monotonic())
            raise
        except (TimeoutError, ValueError, LookupError, TypeError, RecursionError) as error:
            self._breaker.record_failure(time.monotonic())
            raise SafetyUnavailableError(f"the safety service: {type(error).__name__}") from None
        self._breaker.record_success()
        return verdict

    async def is_healthy(self) -> bool:
        """Return whether the service reports that it is healthy."""
        from aiohttp import ClientError

        try:
            async with asyncio.timeout(self._timeout_s):
                async with self._get_session().get(f"{self._url}/health", allow_redirects=False) as reply:
                    return reply.status == 200
        except (ClientError, OSError, TimeoutError):
            return False

    async def aclose(self) -> None:
        """Close its connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def _post_question(self, body: dict[str, Any]) -> str:
        """Post the question. Raises SafetyUnavailableError, and errors of decoding the answer."""
        from aiohttp import ClientError

        session, url = self._get_session(), f"{self._url}/safety"
        try:
            async with session.post(url, json=body, allow_redirects=False) as reply:
                if reply.status != 200:
                    raise SafetyUnavailableError(f"the safety service answered with status {reply.status}")
                body_bytes = b""
                async for piece in reply.content.iter_any():
                    body_bytes += piece
                    if len(body_bytes) > _MAX_REPLY_BYTES:
                        raise SafetyUnavailableError("the safety service's answer is too long")
        except (ClientError, OSError) as error:
            raise SafetyUnavailableError(f"the safety service: {type(error).__name__}") from None
        outputs = json.loads(body_bytes)["outputs"]
        if not isinstance(outputs, str):
            raise TypeError("outputs")
        return outputs

    def _get_session(self) -> ClientSession:
        import aiohttp

        if self._session is None:
            # Connections are not kept: one that the service closed meanwhile would fail a question.
            self._session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True))
        return self._session
