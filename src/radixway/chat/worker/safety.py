"""A worker's own safety: the published service, asked before anything is generated."""

from __future__ import annotations

from typing import Any

import aiohttp

from radixway.chat.safety import SafetyVerdict, parse_verdict


class WorkerSafetyClient:
    """Asks the service."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self._url = f"{url.rstrip('/')}/safety"

    async def judge(self, prompt: str, level: int) -> SafetyVerdict:
        """Raises aiohttp.ClientError, TimeoutError, ValueError."""
        body = {"inputs": prompt, "parameters": {"level": level}}
        async with self._session.post(self._url, json=body, timeout=aiohttp.ClientTimeout(total=30)) as told:
            told.raise_for_status()
            answer: dict[str, Any] = await told.json(content_type=None)
        return parse_verdict(str(answer.get("outputs", "")))
