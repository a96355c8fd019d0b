"""HTTP to addresses that users name.

Addresses are checked where sockets are made: whatever a name resolves to, whatever a redirect points at and
however an address is written, a socket is opened for the very address that was looked at, and for no other.
"""

import asyncio
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from types import TracebackType
from typing import Any, Self

import aiohttp
from yarl import URL

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

_UNICAST = IPv6Network("2000::/3")
"""The public part of IPv6."""
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: Address) -> bool:
    """Return whether it is a public unicast address, as is, in IPv6, the address of IPv4 that it carries."""
    if isinstance(address, IPv4Address):
        return address.is_global and not address.is_multicast and not address.is_reserved
    carried = embedded_ipv4_address(address)
    if carried is not None:
        return is_public(carried)
    return address in _UNICAST and address.is_global


def embedded_ipv4_address(address: IPv6Address) -> IPv4Address | None:
    """The address of IPv4 that packets to this one end up at, or may: mapped, NAT64, 6to4, Teredo."""
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFFFFFF)
    if address.teredo is not None:
        return address.teredo[1]
    return address.sixtofour


class AddressAllowlist:
    """Public addresses, and networks that the operator allows as well."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        """`networks`: such as `10.1.0.0/16` or a single address. Raises ValueError."""
        self._networks: tuple[Network, ...] = tuple(ip_network(network) for network in networks)

    def __call__(self, host: str) -> bool:
        """Return whether it may be called. `host`: an address in digits, with its zone where it has one."""
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return is_public(address) or any(address in network for network in self._networks)


_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAFE = frozenset({"GET", "HEAD"})
_CHUNK_BYTES = 1 << 16
_MAX_CONCURRENT_CALLS = 64
"""Of one fetcher; further ones wait."""


class FetchError(Exception):
    """Nothing was fetched; the text says why and may be shown to the caller."""


class TooManyRedirectsError(FetchError):
    """Too many redirects."""


class _BlockedAddressError(OSError):
    """A socket to an address that is not allowed."""


@dataclass(frozen=True, slots=True)
class FetchedResource:
    """An answer, or the beginning of one."""

    url: str
    """URL after redirects."""
    status: int
    content_type: str
    """Content type, such as `text/html`; `application/octet-stream` by default."""
    charset: str | None
    body: bytes
    """Decompressed."""
    is_complete: bool
    """Whether the body is complete, not cut at the limit."""

    def decode_text(self) -> str:
        """Decode in the named character set, else UTF-8; invalid bytes are replaced."""
        try:
            return self.body.decode(self.charset or "utf-8", "replace")
        except LookupError:
            return self.body.decode("utf-8", "replace")


class UrlFetcher:
    """Belongs to one event loop. Cookies, proxies of the environment and `.netrc` have no part in it."""

    def __init__(
        self,
        allowed: AddressAllowlist | None = None,
        *,
        timeout_s: float = 10.0,
        max_bytes: int = 4 << 20,
        max_redirects: int = 5,
        user_agent: str = "radixway",
    ) -> None:
        """`timeout_s`: from the first connect to the last byte, redirects and waiting for a place included.
        `max_bytes`: of an answer, decompressed."""
        self._allowed = allowed or AddressAllowlist()
        self._timeout_s = timeout_s
        self._max_bytes = max_bytes
        self._max_redirects = max_redirects
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT_CALLS)
        self._user_agent = user_agent
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Ends what is under way."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def fetch(
        self,
        url: str,
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        max_bytes: int | None = None,
        timeout_s: float | None = None,
    ) -> FetchedResource:
        """Call it, and follow its redirects where nothing is sent (GET, HEAD).

        Of a longer answer `max_bytes` are fetched and no more. `headers` go to the first address and to
        redirects within its origin, nowhere else. Raises FetchError.
        """
        given_s = self._timeout_s if timeout_s is None else timeout_s
        max_bytes = self._max_bytes if max_bytes is None else max_bytes
        try:
            async with asyncio.timeout(given_s), self._slots:
                return await self._follow_redirects(
                    parse_fetch_url(url), method, dict(headers or {}), body, max_bytes
                )
        except TimeoutError:
            raise FetchError(f"no complete answer in {given_s:g} s") from None

    async def _follow_redirects(
        self, url: URL, method: str, headers: dict[str, str], body: bytes | None, max_bytes: int
    ) -> FetchedResource:
        for _ in range(self._max_redirects + 1):
            fetched, location = await self._fetch_once(url, method, headers, body, max_bytes)
            if location is None or method not in _SAFE:
                return fetched
            target = parse_fetch_url(location, url)
            headers = headers if target.origin() == url.origin() else {}
            url = target
        raise TooManyRedirectsError(f"more than {self._max_redirects} redirects")

    async def _fetch_once(
        self, url: URL, method: str, headers: dict[str, str], body: bytes | None, max_bytes: int
    ) -> tuple[FetchedResource, str | None]:
        try:
            async with self._open_session().request(
                method, url, headers=headers, data=body, allow_redirects=False
            ) as response:
                location = response.headers.get("location") if response.status in _REDIRECTS else None
                limited = (b"", True) if location is not None else await _read_limited(response, max_bytes)
                fetched = FetchedResource(
                    str(url), response.status, response.content_type, response.charset, *limited
                )
                return fetched, location
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, _BlockedAddressError):
                raise FetchError(f"{url.host} is not a public address") from None
            raise FetchError(f"{url.host} does not answer") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise FetchError(f"{url.host} does not answer in HTTP ({type(error).__name__})") from None

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(
                limit=0,
                force_close=True,  # every call resolves once, and speaks to what it found
                use_dns_cache=False,
                socket_factory=self._create_socket,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                timeout=aiohttp.ClientTimeout(total=None),
                headers={"user-agent": self._user_agent, "accept-encoding": "gzip, deflate"},
                trust_env=False,
            )
        return self._session

    def _create_socket(self, address: tuple[Any, ...]) -> socket.socket:
        """For one of the addresses that a name has. Raises _BlockedAddressError."""
        family, kind, protocol, _, at = address
        if family not in (socket.AF_INET, socket.AF_INET6) or not self._allowed(str(at[0])):
            raise _BlockedAddressError("not a public address")
        return socket.socket(family, kind, protocol)


def parse_fetch_url(url: str, base: URL | None = None) -> URL:
    """A URL that may be fetched; `base`: what a relative one is relative to. Raises FetchError."""
    try:
        read = URL(url) if base is None else base.join(URL(url))
        host, port = read.host, read.port
    except (ValueError, TypeError):
        raise FetchError("this is not a URL") from None
    if read.scheme not in ("http", "https") or not host or not port:
        raise FetchError("only URLs of http and https with a host can be fetched")
    if read.user is not None or read.password is not None:
        raise FetchError("URLs with a user or a password are not fetched")
    return read.with_fragment(None)


async def _read_limited(response: aiohttp.ClientResponse, max_bytes: int) -> tuple[bytes, bool]:
    body = bytearray()
    async for piece in response.content.iter_chunked(_CHUNK_BYTES):
        body += piece
        if len(body) > max_bytes:
            return bytes(body[:max_bytes]), False
    return bytes(body), True
