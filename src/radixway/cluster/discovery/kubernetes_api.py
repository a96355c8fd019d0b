"""Lists and watches of a Kubernetes API server, as far as discovery needs them."""

from __future__ import annotations

import os
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import aiohttp
import msgspec
from yarl import URL

from radixway.cluster.discovery.endpoint_slices import EndpointSlice, ObjectMetadata
from radixway.cluster.discovery.source import DiscoverySourceError
from radixway.core.config import KubernetesConfig

MOUNTED = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Directory of a pod's service account."""
_PAGE = 500
_CALL_S = 30.0
_GRACE_S = 10.0
"""Allowance after the server should have ended a watch."""
_MAX_EVENT_BYTES = 16 * 2**20
_MAX_PAGE_BYTES = 128 * 2**20
_MAX_PAGES = 1000
_T = TypeVar("_T")


class Expired(Exception):
    """The server no longer knows that resource version (410 Gone): list again."""


class _Status(msgspec.Struct):
    message: str = ""
    code: int = 0


class _Listing(msgspec.Struct):
    metadata: ObjectMetadata
    items: tuple[EndpointSlice, ...] | None = None


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Event:
    """A line of a watch. `subject` is None for a bookmark, which only has a version."""

    version: str
    subject: EndpointSlice | None = None
    deleted: bool = False


@dataclass(frozen=True, slots=True)
class Account:
    """API server, namespace and credentials."""

    server: str
    namespace: str
    token_file: Path | None
    ca_file: Path | None

    @classmethod
    def of(
        cls, config: KubernetesConfig, environ: Mapping[str, str] = os.environ, mounted: Path = MOUNTED
    ) -> Account:
        """Read `config`; what it leaves open is the pod's own. Raises DiscoverySourceError."""
        host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT", "443")
        server, token, ca = config.server, config.token_file, config.ca_file
        if server is None:
            if not host:
                raise DiscoverySourceError("this is no Kubernetes cluster: say which one by server")
            server = f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}"
            ca = ca or mounted / "ca.crt"
            token = token or mounted / "token"
        namespace = config.namespace or _read(mounted / "namespace", "namespace")
        return cls(server, namespace, token, ca)


class EndpointSlices:
    """The EndpointSlices of a namespace that a selector selects."""

    def __init__(self, account: Account, config: KubernetesConfig, session: aiohttp.ClientSession) -> None:
        self._account = account
        self._config = config
        self._session = session
        path = "/apis/discovery.k8s.io/v1/endpointslices"
        if account.namespace != "*":
            path = f"/apis/discovery.k8s.io/v1/namespaces/{account.namespace}/endpointslices"
        self._url = URL(account.server + path)

    async def read_all(self) -> tuple[list[EndpointSlice], str]:
        """Return all, and the resource version to watch from. Raises DiscoverySourceError, Expired."""
        found: list[EndpointSlice] = []
        page = {"limit": str(_PAGE)}
        for _ in range(_MAX_PAGES):
            async with self._get(page, aiohttp.ClientTimeout(total=_CALL_S)) as response:
                listing = _decode(_listing, await _read_body(response.content))
            found += listing.items or ()
            if not listing.metadata.continue_:
                return found, listing.metadata.resource_version
            page["continue"] = listing.metadata.continue_
        raise DiscoverySourceError(f"a list of more than {_MAX_PAGES} pages")

    @asynccontextmanager
    async def watch(self, version: str) -> AsyncIterator[AsyncIterator[Event]]:
        """Yield changes after `version` until the server ends it. Raises DiscoverySourceError, Expired."""
        watch_s = self._config.watch_s
        query = {
            "watch": "1",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(round(watch_s)),
        }
        limits = aiohttp.ClientTimeout(connect=_GRACE_S, sock_read=watch_s + _GRACE_S)
        async with self._get(query, limits) as response:
            yield _events(response.content)

    @asynccontextmanager
    async def _get(
        self, query: Mapping[str, str], limits: aiohttp.ClientTimeout
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        params = {"labelSelector": self._config.selector, **query}
        headers = {"accept": "application/json"}
        if self._account.token_file is not None:  # it is exchanged while we run
            headers["authorization"] = f"Bearer {_read(self._account.token_file, 'token')}"
        try:
            async with self._session.get(
                self._url, params=params, headers=headers, timeout=limits, allow_redirects=False
            ) as response:
                if response.status != 200:
                    await _refuse(response)
                yield response
        except TimeoutError:
            raise DiscoverySourceError(f"{self._account.server} is silent") from None
        except (aiohttp.ClientError, OSError) as error:
            raise DiscoverySourceError(f"{self._account.server}: {error or type(error).__name__}") from None


@asynccontextmanager
async def opened(config: KubernetesConfig, account: Account) -> AsyncIterator[EndpointSlices]:
    """Open connections; the CA's file is read now. Raises DiscoverySourceError."""
    try:
        context = ssl.create_default_context(cafile=account.ca_file)
    except OSError as error:
        raise DiscoverySourceError(f"ca_file {account.ca_file}: {error.strerror or error}") from None
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session:
        yield EndpointSlices(account, config, session)


async def _read_body(content: aiohttp.StreamReader) -> bytes:
    raw = bytearray()
    async for piece in content.iter_any():
        raw += piece
        if len(raw) > _MAX_PAGE_BYTES:
            raise DiscoverySourceError(f"a list's page of more than {_MAX_PAGE_BYTES} bytes")
    return bytes(raw)


async def _events(content: aiohttp.StreamReader) -> AsyncIterator[Event]:
    async for raw in _lines(content):
        line = _decode(_line, raw)
        if line.type == "ERROR":
            status = _decode(_status, line.object)
            if status.code == 410:
                raise Expired(status.message)
            raise DiscoverySourceError(f"the watch was ended: {status.message or status.code}")
        subject = _decode(_slice, line.object)  # of a bookmark, the metadata alone
        version = subject.metadata.resource_version
        yield Event(version, None if line.type == "BOOKMARK" else subject, line.type == "DELETED")


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield whole lines; a partial last one is dropped."""
    rest = bytearray()
    async for piece in content.iter_any():
        rest += piece
        *complete, last = rest.split(b"\n") if b"\n" in piece else (rest,)
        for line in complete:
            if line.strip():
                yield bytes(line)
        rest = bytearray(last)
        if len(rest) > _MAX_EVENT_BYTES:
            raise DiscoverySourceError(f"an event of more than {_MAX_EVENT_BYTES} bytes")


async def _refuse(response: aiohttp.ClientResponse) -> None:
    """Raise Expired or DiscoverySourceError in the server's words."""
    try:
        message = _status.decode(await response.content.read(65536)).message
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        message = ""
    if response.status == 410:
        raise Expired(message)
    after = response.headers.get("retry-after", "")
    raise DiscoverySourceError(
        f"the API server answered {response.status}: {message or response.reason}",
        retry_after_s=float(after) if after.isdecimal() else None,
    )


def _read(path: Path, what: str) -> str:
    try:
        return path.read_text().strip()
    except OSError as error:
        raise DiscoverySourceError(f"{what}: {path}: {error.strerror or error}") from None


def _decode(decoder: msgspec.json.Decoder[_T], raw: bytes | msgspec.Raw) -> _T:
    try:
        return decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DiscoverySourceError(f"the API server's answer cannot be read: {error}") from None


_listing = msgspec.json.Decoder(_Listing)
_line = msgspec.json.Decoder(_Line)
_status = msgspec.json.Decoder(_Status)
_slice = msgspec.json.Decoder(EndpointSlice)
