"""What providers answer, as JSON: bounded in size and time, never redirected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import aiohttp
import msgspec

_MOST_BYTES = 1 << 20
_TIMEOUT = aiohttp.ClientTimeout(total=10)


class LoginFailed(Exception):
    """Nobody has logged in; the text says why, without a word of codes and tokens."""

    def __init__(self, text: str, status: int = 401) -> None:
        """`status`: of HTTP."""
        super().__init__(text)
        self.status = status


class ProviderSilent(LoginFailed):
    """The provider cannot be asked now."""

    def __init__(self, url: str, why: str) -> None:
        host = url.split("/")[2]
        super().__init__(f"{host} cannot be asked now: {why}", 503)


async def ask(
    url: str,
    *,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The object that it answers, to a form if there is one. Raises LoginFailed: it refuses, or is silent."""
    try:
        async with (
            aiohttp.ClientSession(timeout=_TIMEOUT) as session,
            session.request(
                "GET" if form is None else "POST",
                url,
                data=form,
                headers={"Accept": "application/json", **(headers or {})},
                allow_redirects=False,
            ) as response,
        ):
            body = await _read(response, url)
            status = response.status
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise ProviderSilent(url, type(error).__name__) from error
    if status >= 500 or status == 429:
        raise ProviderSilent(url, f"it answered {status}")
    if status != 200:
        raise LoginFailed(f"the provider refused: it answered {status}")
    try:
        return msgspec.json.decode(body, type=dict[str, Any])
    except (msgspec.DecodeError, msgspec.ValidationError):
        raise ProviderSilent(url, "it did not answer a JSON object") from None


async def _read(response: aiohttp.ClientResponse, url: str) -> bytes:
    """Raises ProviderSilent."""
    body = bytearray()
    async for part in response.content.iter_any():
        body += part
        if len(body) > _MOST_BYTES:
            raise ProviderSilent(url, "it answered more than a megabyte")
    return bytes(body)
