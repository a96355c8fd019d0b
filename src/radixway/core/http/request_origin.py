"""The origin of a request, by its headers and its address: the one check of all our servers.

Callers without a key are known by their address alone. Three things make it worthless:

- A page of another site has its visitor's browser send requests (CSRF). Browsers name that page's site, in
  `Origin` or `Sec-Fetch-Site`; what is no browser sends neither.
- Such a page has its own name led to this machine once it is loaded (DNS rebinding). What it asks then comes
  from the loopback and from its own site, and only the name in `Host` tells.
- A proxy on this machine: everybody's requests come from the loopback.

`LoopGuard` marks every request that is passed on (RFC 9110, section 7.6.3): a gateway that is given its own
URL as a worker would ask itself for ever.
"""

import secrets
import socket
from collections.abc import Collection
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from radixway.core.http.asgi import Scope
from radixway.core.http.errors import HttpError

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_CHANGED_BY_GET = frozenset({"/flush_cache"})
"""Paths at which a GET has effects, as in SGLang."""
_KEYS = (b"authorization", b"x-api-key", b"trustedclient")
"""Headers that pages cannot send to other sites without CORS."""
_PROXY_HEADERS = (
    *(b"x-forwarded-for", b"forwarded", b"x-real-ip", b"x-forwarded-host", b"x-forwarded-proto"),
    *(b"x-client-ip", b"true-client-ip", b"cf-connecting-ip", b"x-envoy-external-address"),
)
_OUR_VIA = b"radixway-"
_MAX_QUOTED_CHARS = 253
_MAX_CACHED_HOSTS = 1024


class ForeignHostError(HttpError):
    """The request came under a name that another site may own."""

    status = 403
    code = "foreign_host"


class OriginCheck:
    """The pages and names that one server takes for its own."""

    def __init__(
        self,
        *,
        hosts: Collection[str] = (),
        origins: Collection[str] = (),
        site_help: str = "send a key",
        host_help: str = "set a key",
    ) -> None:
        """
        Args:
            hosts: names, `HOST` or `HOST:PORT`, under which browsers reach the server, beside its addresses.
            origins: `SCHEME://HOST[:PORT]` of other sites whose pages may ask it; `*` is all.
            site_help: what to do about a request from another site, for the error.
            host_help: the same for a `ForeignHostError`.
        """
        self._hosts = frozenset(host.lower().encode() for host in hosts)
        self._origins = frozenset(origin.lower().encode() for origin in origins)
        self._site_help = site_help
        self._host_help = host_help

    def check_site(self, scope: Scope) -> None:
        """Raise HttpError (403) for a change that a page of another site asks for without a key."""
        if not may_change(scope):
            return
        headers = dict(scope["headers"])
        if not self._is_cross_site(headers, self._origins) or any(name in headers for name in _KEYS):
            return
        by = headers.get(b"origin", b"").decode("latin-1")[:_MAX_QUOTED_CHARS]
        message = f"a page of another site asked for this ({by or '?'}): {self._site_help}"
        raise HttpError(message, status=403, code="cross_site_request")

    def check_host(self, scope: Scope) -> None:
        """Raise ForeignHostError for what comes from the loopback under a name that another site may have."""
        if is_loopback(scope) and self.has_foreign_host(scope):
            name = quoted_host(scope)
            raise ForeignHostError(
                f"another site may have the name {name!r}, under which this came: ask at localhost or an "
                f"address, or {self._host_help}"
            )

    def is_cross_site(self, scope: Scope) -> bool:
        """Return whether a page of another site sent it, in `origins` or not, as far as its headers tell."""
        headers = dict(scope["headers"])
        return (may_change(scope) or b"origin" in headers) and self._is_cross_site(headers, ())

    def has_foreign_host(self, scope: Scope) -> bool:
        """Return whether another site may have the name under which it came."""
        host = _host_header(scope)
        return _may_be_foreign(host) and not (
            host in self._hosts or host_name(host.decode("latin-1")).encode() in self._hosts
        )

    def _is_cross_site(self, headers: dict[bytes, bytes], others: Collection[bytes]) -> bool:
        origin = headers.get(b"origin")
        if origin is None:
            return headers.get(b"sec-fetch-site", b"none") not in (b"same-origin", b"none")
        origin = origin.lower()
        if origin in others or b"*" in others:
            return False
        own = _netloc(origin)
        return not own or (own != headers.get(b"host", b"").lower() and own not in self._hosts)


def may_change(scope: Scope) -> bool:
    """Return whether it can do more than show something. A WebSocket can."""
    return (
        scope["type"] == "websocket"
        or scope["method"] not in _SAFE_METHODS
        or scope["path"] in _CHANGED_BY_GET
    )


def is_loopback(scope: Scope) -> bool:
    """Return whether its connection comes from this machine, a proxy's too (`proxy_header`)."""
    client = scope.get("client")
    if not client:
        return False
    host: str = client[0].removeprefix("::ffff:")
    return host.startswith("127.") or host == "::1"


def proxy_header(scope: Scope) -> str | None:
    """The name of a header that says it came through a proxy, if there is one; gateways are none."""
    headers = dict(scope["headers"])
    for name in _PROXY_HEADERS:
        if name in headers:
            return name.decode("ascii")
    return None if all(_OUR_VIA in hop for hop in headers.get(b"via", _OUR_VIA).split(b",")) else "via"


def quoted_host(scope: Scope) -> str:
    """The name under which it came, as a message may repeat it."""
    return host_name(_host_header(scope).decode("latin-1"))[:_MAX_QUOTED_CHARS]


def host_name(host: str) -> str:
    """Return the name or address in the `Host` header `host`, without the port; empty where there is none."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:  # a bracket that does not close
        return ""


def _host_header(scope: Scope) -> bytes:
    value: bytes = next((value for name, value in scope["headers"] if name == b"host"), b"")
    return value.lower()


@lru_cache(_MAX_CACHED_HOSTS)
def _may_be_foreign(host: bytes) -> bool:
    """Return whether another site could own this host: not names without a dot, this machine's, or
    addresses."""
    name = host_name(host.decode("latin-1"))
    if "." not in name or name.endswith(".localhost") or name == socket.gethostname().lower():
        return False
    try:
        ip_address(name)
    except ValueError:
        return True
    return False


@lru_cache(_MAX_CACHED_HOSTS)
def _netloc(origin: bytes) -> bytes:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return b""


class LoopDetectedError(HttpError):
    """The request has passed this gateway before."""

    status = 508
    code = "loop_detected"


class LoopGuard:
    """The mark that lets a gateway recognise its own requests."""

    def __init__(self) -> None:
        self._name = f"radixway-{secrets.token_hex(6)}".encode("ascii")
        self.value = b"1.1 " + self._name

    def check_loop(self, scope: Scope) -> None:
        """Raise LoopDetectedError if the request's `scope` bears our own mark."""
        for name, value in scope["headers"]:
            if name == b"via" and self._name in value:
                raise LoopDetectedError("this gateway is its own worker, directly or through others")
