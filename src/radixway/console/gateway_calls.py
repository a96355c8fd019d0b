"""The gateway as the pages know it: HTTP calls with the visitor's key."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import msgspec

_TIMEOUT_S = 30.0


class ConsoleCallError(Exception):
    """The gateway did not do what it was asked for."""


class GatewayUnreachableError(ConsoleCallError):
    """It does not answer."""


class SignedOutError(ConsoleCallError):
    """The key is not valid, or not any more."""


class CallRefusedError(ConsoleCallError):
    """It answered with an error."""

    def __init__(self, status: int, message: str, field: str | None = None, body: Any = None) -> None:
        super().__init__(message)
        self.status = status
        self.field = field
        """The parameter at fault, where one is named."""
        self.body = body
        """What it answered, decoded if it is JSON."""


class GatewayConnection:
    """Connections to one gateway, shared by all visitors. `url`: http(s)://…, or `unix:PATH`."""

    def __init__(self, url: str) -> None:
        path = url.removeprefix("unix:")
        self._unix = path if path != url else None
        self._base = "http://gateway" if self._unix else url.rstrip("/")
        self._session: aiohttp.ClientSession | None = None

    @asynccontextmanager
    async def open_session(self) -> AsyncIterator[None]:
        """Hold the connections."""
        connector = (
            aiohttp.UnixConnector(self._unix, limit=0) if self._unix else aiohttp.TCPConnector(limit=0)
        )
        async with aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar()) as session:
            self._session = session
            yield
        self._session = None

    @asynccontextmanager
    async def request_answer(
        self, method: str, path: str, *, key: str | None, timeout_s: float | None, **more: Any
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request by `method` to `path`; yield a successful answer, its body unread.

        Raises ConsoleCallError.
        """
        if self._session is None:
            raise GatewayUnreachableError("the console is ending")
        headers = dict(more.pop("headers", ()))
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=5)
        try:
            async with self._session.request(
                method, self._base + path, headers=headers, timeout=timeout, allow_redirects=False, **more
            ) as answer:
                if answer.status >= 400:
                    raise _error_from_answer(answer.status, await answer.read())
                yield answer
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise GatewayUnreachableError(str(error) or type(error).__name__) from None


class GatewayCalls:
    """One visitor's calls. `read_key` returns the key for as long as its owner is signed in."""

    def __init__(self, line: GatewayConnection, read_key: Callable[[], str | None]) -> None:
        self._line = line
        self._read_key = read_key

    def with_key(self, read_key: Callable[[], str | None]) -> GatewayCalls:
        """Return calls to the same gateway with another key."""
        return GatewayCalls(self._line, read_key)

    async def get_json(self, path: str, **query: Any) -> Any:
        """Return the decoded answer of a GET of `path`; parameters that are None are left out.

        Raises ConsoleCallError.
        """
        return await self.send_request("GET", path, query=query)

    async def post_json(self, path: str, body: Any = None, **query: Any) -> Any:
        """Return the decoded answer to `body`, posted to `path` as JSON. Raises ConsoleCallError."""
        return await self.send_request("POST", path, body=body, query=query)

    async def send_request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> Any:
        """Return the answer of any call: decoded if it is JSON, as text otherwise. `body` is sent as JSON,
        unless it is bytes.

        Raises ConsoleCallError.
        """
        async with self.stream_answer(
            method, path, body=body, query=query, headers=headers, timeout_s=timeout_s
        ) as answer:
            raw = await answer.read()
            if answer.content_type.endswith("json"):
                return msgspec.json.decode(raw)
            return raw.decode("utf-8", "replace")

    @asynccontextmanager
    async def stream_answer(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yield an answer whose body comes in pieces, as `answer.content`.

        Raises ConsoleCallError, also while it is read.
        """
        more: dict[str, Any] = {"headers": dict(headers or {})}
        if query:
            more["params"] = {name: str(value) for name, value in query.items() if value is not None}
        if isinstance(body, bytes):
            more["data"] = body
        elif body is not None:
            more["data"] = msgspec.json.encode(body)
            more["headers"].setdefault("content-type", "application/json")
        async with self._line.request_answer(
            method, path, key=self._read_key(), timeout_s=timeout_s, **more
        ) as answer:
            yield answer


def _error_from_answer(status: int, raw: bytes) -> ConsoleCallError:
    try:
        body = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        body = raw.decode("utf-8", "replace")
    error = body.get("error", body) if isinstance(body, dict) else {}
    error = error if isinstance(error, dict) else {"message": str(error)}
    message = error.get("message") or error.get("detail") or f"{status}"
    if status == 401:
        return SignedOutError(str(message))
    field = error.get("param")
    return CallRefusedError(status, str(message), field if isinstance(field, str) else None, body)
