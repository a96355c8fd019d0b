"""A small client of a running gateway, for the command line."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import aiohttp


class CallFailed(Exception):
    """The gateway is not there, or said no; the message says which."""


@dataclass(slots=True)
class Told:
    """What came with an answer."""

    request_id: str = ""
    model: str = ""
    worker: str = ""
    text: str = ""
    first_token_s: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0

    def summary(self) -> str:
        """One line for people."""
        return (
            f"{self.model} on {self.worker}"
            f" · {self.cached_tokens} of {self.prompt_tokens} prompt tokens cached"
            f" · first token after {self.first_token_s * 1e3:.0f} ms · {self.completion_tokens} tokens"
            f" · request {self.request_id}"
        )


async def call(
    url: str, method: str, path: str, body: dict[str, Any] | None = None, key: str | None = None
) -> Any:
    """One JSON call. Raises CallFailed."""
    headers = {"authorization": f"Bearer {key}"} if key else {}
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
            session.request(method, url.rstrip("/") + path, json=body, headers=headers) as response,
        ):
            await _refuse(response)
            return await response.json(content_type=None)
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise CallFailed(f"no gateway answers at {url}: {error or type(error).__name__}") from None


async def ask(url: str, body: dict[str, Any], show: Callable[[str], None]) -> Told:
    """Stream one chat completion, handing text to `show` as it comes. Raises CallFailed."""
    told = Told()
    body = {**body, "stream": True, "stream_options": {"include_usage": True}}
    began = perf_counter()
    try:
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session,
            session.post(url.rstrip("/") + "/v1/chat/completions", json=body) as response,
        ):
            await _refuse(response)
            told.request_id = response.headers.get("x-request-id", "")
            told.worker = response.headers.get("x-radixway-worker", "")
            async for event in _events(response):
                if "error" in event:
                    raise CallFailed(event["error"].get("message", "the stream broke"))
                told.model = event.get("model") or told.model
                _read_usage(told, event.get("usage") or {})
                for choice in event.get("choices", ()):
                    text = choice.get("delta", {}).get("content")
                    if text:
                        told.first_token_s = told.first_token_s or perf_counter() - began
                        told.text += text
                        show(text)
    except (aiohttp.ClientError, ValueError) as error:
        raise CallFailed(f"no gateway answers at {url}: {error or type(error).__name__}") from None
    return told


async def _refuse(response: aiohttp.ClientResponse) -> None:
    if response.status < 400:
        return
    try:
        message = (await response.json(content_type=None))["error"]["message"]
    except (ValueError, TypeError, KeyError):
        message = f"it answered {response.status}"
    raise CallFailed(message)


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    async for line in response.content:
        data = line.removeprefix(b"data:").strip()
        if data and data != b"[DONE]" and line.startswith(b"data:"):
            yield json.loads(data)


def _read_usage(told: Told, usage: dict[str, Any]) -> None:
    told.prompt_tokens = usage.get("prompt_tokens", told.prompt_tokens)
    told.completion_tokens = usage.get("completion_tokens", told.completion_tokens)
    details = usage.get("prompt_tokens_details") or {}
    told.cached_tokens = details.get("cached_tokens", told.cached_tokens)
