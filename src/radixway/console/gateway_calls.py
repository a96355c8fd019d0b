"""The gateway as the pages know it: HTTP calls with the visitor's key."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, TypedDict, Unpack

import aiohttp
import msgspec

TIMEOUT_S = 30.0


class ConsoleCallError(Exception):
    """The gateway did not do what it was asked for."""


class GatewayUnreachableError(ConsoleCallError):
    """The gateway does not answer."""


class SignedOutError(ConsoleCallError):
    """The key is not valid, or not any more."""


class CallRefusedError(ConsoleCallError):
    """The gateway answered with an error."""

    def __init__(self, status: int, message: str, field: str | None = None, body: Any = None) -> None:
        super().__init__(message)
        self.status = status
        self.field = field
        """The parameter at fault, where one is named."""
        self.body = body
        """The answer, decoded if it is JSON."""


class CallOptions(TypedDict, total=False):
    """What a call has beside its method and path."""

    body: Any
    """Sent as JSON, unless it is bytes."""
    query: Mapping[str, Any]
    """Parameters that are None are left out."""
    headers: Mapping[str, str]


class GatewayConnection:
    """Connections to one gateway, shared by all visitors. `url`: http(s)://…, or `unix:PATH`."""

    def __init__(self, url: str) -> None:
        path = url.removeprefix("unix:")
        self._unix = path if path != url else None
        self._base = "http://gateway" if self._unix else url.rstrip("/")
        self.public_url = None if self._unix else self._base
        """Where browsers find the gateway; None: where they find the console."""
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
        self, method: str, path: str, key: str | None, timeout_s: float | None, **options: Unpack[CallOptions]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request by `method` to `path`; yield a successful answer, its body unread.

        Raises ConsoleCallError.
        """
        if self._session is None:
            raise GatewayUnreachableError("the console is ending")
        headers, body = dict(options.get("headers", {})), options.get("body")
        if key is not None:
            headers["authorization"] = f"Bearer {key}"
        if body is not None and not isinstance(body, bytes):
            body = msgspec.json.encode(body)
            headers.setdefault("content-type", "application/json")
        query = options.get("query", {})
        params = {name: str(value) for name, value in query.items() if value is not None}
        timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=5)
        try:
            async with self._session.request(
                method,
                self._base + path,
                params=params,
                data=body,
                headers=headers,
                timeout=timeout,
                allow_redirects=False,
            ) as answer:
                if answer.status >= 400:
                    raise _error_from_answer(answer.status, await answer.read())
                yield answer
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise GatewayUnreachableError(str(error) or type(error).__name__) from None


class GatewayCalls:
    """One visitor's calls. `read_key` returns the key for as long as its owner is signed in."""

    def __init__(self, line: GatewayConnection, read_key: Callable[[], str | None]) -> None:
        self.line = line
        self._read_key = read_key

    async def get_json(self, path: str, **query: Any) -> Any:
        """Return the decoded answer of a GET of `path`; parameters that are None are left out.

        Raises ConsoleCallError.
        """
        return await self.send_request("GET", path, query=query)

    async def find_json(self, path: str, **query: Any) -> Any:
        """Return what `get_json` does; None where the gateway answers that there is no such thing."""
        try:
            return await self.get_json(path, **query)
        except CallRefusedError as error:
            if error.status != 404:
                raise
            return None

    async def post_json(self, path: str, body: Any = None) -> Any:
        """Return the decoded answer to `body`, posted to `path` as JSON. Raises ConsoleCallError."""
        return await self.send_request("POST", path, body=body)

    async def send_request(
        self, method: str, path: str, timeout_s: float = TIMEOUT_S, **options: Unpack[CallOptions]
    ) -> Any:
        """Return the answer of any call, decoded if it is JSON, else as text. Raises ConsoleCallError."""
        async with self.line.request_answer(method, path, self._read_key(), timeout_s, **options) as answer:
            raw = await answer.read()
            if answer.content_type.endswith("json"):
                return msgspec.json.decode(raw)
            return raw.decode("utf-8", "replace")

    def stream_answer(
        self, method: str, path: str, **options: Unpack[CallOptions]
    ) -> AbstractAsyncContextManager[aiohttp.ClientResponse]:
        """Return an answer, to be entered, whose body comes in pieces, as `answer.content`.

        Raises ConsoleCallError, also while it is read.
        """
        return self.line.request_answer(method, path, self._read_key(), None, **options)


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
