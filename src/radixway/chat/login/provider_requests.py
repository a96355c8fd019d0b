"""HTTP requests to login providers: JSON, bounded in size and time, never redirected."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import msgspec

from radixway.core.net import AddressAllowlist, FetchError, TooManyRedirectsError, UrlFetcher

_MAX_BYTES = 1 << 20
_ANYWHERE = AddressAllowlist(("0.0.0.0/0", "::/0"))
"""Who runs this gateway named the provider, which may stand in their own network."""


class LoginError(Exception):
    """Nobody has logged in; the text says why, without a word of codes and tokens."""

    def __init__(self, text: str, status: int = 401) -> None:
        """`status`: of HTTP."""
        super().__init__(text)
        self.status = status


class ProviderUnavailableError(LoginError):
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
    """Return the JSON object at `url`, posting `form` if there is one. Raises LoginError if it refuses or is
    silent.
    """
    sent = {"Accept": "application/json", **(headers or {})}
    if form is not None:
        sent["Content-Type"] = "application/x-www-form-urlencoded"
    method, body = ("GET", None) if form is None else ("POST", urlencode(form).encode())
    try:
        async with UrlFetcher(_ANYWHERE, max_bytes=_MAX_BYTES, max_redirects=0) as fetcher:
            answer = await fetcher.fetch(url, method=method, headers=sent, body=body)
    except TooManyRedirectsError:
        raise LoginError("the provider refused: it leads elsewhere") from None
    except FetchError as error:
        raise ProviderUnavailableError(url, str(error)) from error
    if answer.status >= 500 or answer.status == 429:
        raise ProviderUnavailableError(url, f"it answered {answer.status}")
    if answer.status != 200:
        raise LoginError(f"the provider refused: it answered {answer.status}")
    try:
        return msgspec.json.decode(answer.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ProviderUnavailableError(url, "it did not answer a JSON object of at most a megabyte") from None
