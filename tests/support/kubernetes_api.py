"""A small Kubernetes API server: lists and watches of any kind of object, as the real one speaks them.

It knows resource versions, pages, label selectors (`a=b,c=d`), bookmarks, 410 Gone in both its forms, tokens,
and TLS. What is not here is not needed by the tests that use it.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Object = dict[str, Any]


def matches(subject: Object, selector: str) -> bool:
    """Whether an object's labels are as the selector says."""
    labels = subject["metadata"].get("labels", {})
    wanted = (each.strip().split("=") for each in selector.split(",") if each.strip())
    return all(labels.get(name) == value for name, value in wanted)


@dataclass
class _Watch:
    kind: str
    namespace: str | None
    selector: str
    wants_bookmarks: bool
    lines: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue)
    """None ends it; an empty line breaks the connection off."""

    def send(self, event: str, subject: Object) -> None:
        self.lines.put_nowait(json.dumps({"type": event, "object": subject}).encode() + b"\n")


@dataclass
class KubernetesApi:
    """Objects by kind (`discovery.k8s.io/v1/endpointslices`), and who watches them."""

    url: str = ""
    version: int = 100
    oldest: int = 0
    """Watches from an earlier version than this have expired."""
    tokens: set[str] | None = None
    """Who may ask; None: anybody."""
    refuses_with: web.Response | None = None
    """What every call is answered."""
    gone_as_event: bool = True
    """Whether 410 is an event of a watch that began well, or the answer itself; both are seen in the wild."""
    page: int | None = None
    """No list is longer than this, whatever its limit."""
    lists: list[dict[str, str]] = field(default_factory=list)
    watches: list[dict[str, str]] = field(default_factory=list)
    """The queries of the lists and watches that were asked for."""
    _objects: dict[str, dict[tuple[str, str], Object]] = field(default_factory=dict)
    _history: list[tuple[int, str, str, Object, Object | None]] = field(default_factory=list)
    """Version, event, kind, the object, and what it was before."""
    _open: list[_Watch] = field(default_factory=list)
    _news: asyncio.Condition = field(default_factory=asyncio.Condition)

    def put(self, kind: str, subject: Object) -> None:
        """Create or replace an object."""
        objects = self._objects.setdefault(kind, {})
        key = (subject["metadata"]["namespace"], subject["metadata"]["name"])
        self._happen("MODIFIED" if key in objects else "ADDED", kind, subject, objects.get(key))

    def delete(self, kind: str, namespace: str, name: str) -> None:
        """Remove an object."""
        before = self._objects[kind][namespace, name]
        self._happen("DELETED", kind, before, before)

    def bookmark(self) -> None:
        """Time goes on without anything of interest; who wants to know is told how far."""
        self.version += 50
        for watch in self._open:
            if watch.wants_bookmarks:
                watch.send("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    def compact(self) -> None:
        """Forget all history."""
        self.version += 1
        self.oldest = self.version

    def end_watches(self, *, broken: bool = False) -> None:
        """As the server does now and then; or as a network does."""
        for watch in self._open:
            watch.lines.put_nowait(b"" if broken else None)
        self._open = []

    def send_raw(self, line: bytes) -> None:
        """Say something that no API server says."""
        for watch in self._open:
            watch.lines.put_nowait(line)

    async def until_watched(self, times: int) -> None:
        """Wait until so many watches have been asked for in all."""
        async with self._news, asyncio.timeout(20):
            await self._news.wait_for(lambda: len(self.watches) >= times)

    def _happen(self, event: str, kind: str, subject: Object, before: Object | None) -> None:
        self.version += 1
        subject = deepcopy(subject)
        subject["metadata"]["resourceVersion"] = str(self.version)
        key = (subject["metadata"]["namespace"], subject["metadata"]["name"])
        objects = self._objects.setdefault(kind, {})
        if event == "DELETED":
            objects.pop(key)
        else:
            objects[key] = subject
        self._history.append((self.version, event, kind, subject, before))
        for watch in self._open:
            self._tell(watch, event, kind, subject, before)

    def _tell(self, watch: _Watch, event: str, kind: str, subject: Object, before: Object | None) -> None:
        """As one sees it who sees only what the selector selects."""
        if kind != watch.kind or watch.namespace not in (None, subject["metadata"]["namespace"]):
            return
        was = before is not None and matches(before, watch.selector)
        now = event != "DELETED" and matches(subject, watch.selector)
        if now or was:
            watch.send("DELETED" if not now else "MODIFIED" if was else "ADDED", subject)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """`GET /apis/GROUP/VERSION[/namespaces/NAMESPACE]/PLURAL`."""
        if self.refuses_with is not None:
            return deepcopy(self.refuses_with)
        _, token = request.headers.get("authorization", " ").split(" ", 1)
        if self.tokens is not None and token not in self.tokens:
            return status(401, "Unauthorized")
        group, version, *rest = request.path.removeprefix("/apis/").split("/")
        namespace = rest[1] if rest[0] == "namespaces" else None
        kind = f"{group}/{version}/{rest[-1]}"
        return await self._all_of(request, kind, namespace)

    async def _all_of(self, request: web.Request, kind: str, namespace: str | None) -> web.StreamResponse:
        """A list, or a watch."""
        query = dict(request.query)
        if query.get("watch") in ("1", "true"):
            return await self._watch(request, kind, namespace, query)
        self.lists.append(query)
        return self._list(kind, namespace, query)

    def _list(self, kind: str, namespace: str | None, query: dict[str, str]) -> web.Response:
        begin, _, at = query.get("continue", f"0@{self.version}").partition("@")
        if int(at) < self.oldest:
            return status(410, "The provided continue parameter is too old")
        found = [
            subject
            for (its_namespace, _), subject in sorted(self._objects.get(kind, {}).items())
            if namespace in (None, its_namespace) and matches(subject, query.get("labelSelector", ""))
        ]
        end = int(begin) + min(int(query.get("limit", len(found) or 1)), self.page or len(found) or 1)
        metadata = {"resourceVersion": at, "continue": f"{end}@{at}" if end < len(found) else ""}
        return web.json_response({"kind": "List", "metadata": metadata, "items": found[int(begin) : end]})

    async def _watch(
        self, request: web.Request, kind: str, namespace: str | None, query: dict[str, str]
    ) -> web.StreamResponse:
        since = int(query["resourceVersion"])
        expired = since < self.oldest
        if expired and not self.gone_as_event:
            await self._note_watch(query)
            return status(410, f"too old resource version: {since} ({self.oldest})")
        response = web.StreamResponse()
        response.content_type = "application/json"
        await response.prepare(request)
        watch = _Watch(kind, namespace, query.get("labelSelector", ""), "allowWatchBookmarks" in query)
        if expired:
            watch.send("ERROR", json.loads(status(410, "too old resource version").text))
            watch.lines.put_nowait(None)
        else:
            for version, *what in self._history:
                if version > since:
                    self._tell(watch, *what)
            self._open.append(watch)
        await self._note_watch(query)
        while (line := await watch.lines.get()) is not None:
            if not line:
                request.transport.abort()
                break
            half = len(line) // 2  # a line need not come in one piece
            await response.write(line[:half])
            await response.write(line[half:])
        return response

    async def _note_watch(self, query: dict[str, str]) -> None:
        async with self._news:
            self.watches.append(query)
            self._news.notify_all()


def status(code: int, message: str) -> web.Response:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    return web.json_response(body, status=code)


@asynccontextmanager
async def kubernetes_api(tls: ssl.SSLContext | None = None) -> AsyncIterator[KubernetesApi]:
    """One that serves on loopback."""
    api = KubernetesApi()
    async with serving(api, tls):
        yield api


@asynccontextmanager
async def serving(api: KubernetesApi, tls: ssl.SSLContext | None = None) -> AsyncIterator[None]:
    """`api` serves on loopback."""
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", api.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
    await site.start()
    port = runner.addresses[0][1]
    api.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{port}"
    try:
        yield
    finally:
        api.end_watches()
        await runner.cleanup()
