"""Plugins of others: a manifest, an OpenAPI document, and calls to where these point.

All of it is strangers' words.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from yarl import URL

from radixway.chat.plugins.openapi import LARGEST, Operation, operations, plugin_config, read_document
from radixway.chat.plugins.tools import Plugin, PluginFailed, Tool, ToolFailed
from radixway.net import Fetcher, FetchError

_KEPT_S = 300.0
_KEPT_BYTES = 4 << 20
"""Of documents, as they came."""


@dataclass(frozen=True, slots=True)
class _Kept:
    document: dict[str, Any]
    until: float
    size: int


class PluginsByUrl:
    """Documents are kept for five minutes. Belongs to one event loop."""

    def __init__(self, fetcher: Fetcher, clock: Callable[[], float], *, result_bytes: int) -> None:
        """`result_bytes`: of an answer, that is read."""
        self._fetcher = fetcher
        self._clock = clock
        self._result_bytes = result_bytes
        self._kept: dict[str, _Kept] = {}

    async def config(self, url: str) -> dict[str, Any]:
        """The manifest there, in the published shape. Raises PluginFailed."""
        return plugin_config(await self._document(url))

    async def plugin(self, url: str) -> Plugin:
        """With its tools. Raises PluginFailed."""
        config = await self.config(url)
        try:
            at = str(URL(url).join(URL(config["api"]["url"])))
        except ValueError:
            raise PluginFailed("the manifest's api.url is no URL") from None
        found = operations(await self._document(at), at)
        tools = tuple(
            Tool(each.name, each.description, each.parameters, partial(self._call, each)) for each in found
        )
        name = config["name_for_human"] or config["name_for_model"]
        return Plugin(url, name, config["description_for_model"], tools)

    async def _call(self, operation: Operation, arguments: dict[str, Any]) -> str:
        try:
            url, headers, body = operation.request(arguments)
            answer = await self._fetcher.fetch(
                url, method=operation.method, headers=headers, body=body, max_bytes=self._result_bytes
            )
        except (FetchError, ValueError) as error:
            raise ToolFailed(str(error)) from None
        if not 200 <= answer.status < 300:
            raise ToolFailed(f"status {answer.status}: {answer.text()[:500]}")
        return answer.text()

    async def _document(self, url: str) -> dict[str, Any]:
        kept = self._kept.get(url)
        if kept is not None and kept.until > self._clock():
            return kept.document
        try:
            fetched = await self._fetcher.fetch(url, max_bytes=LARGEST)
        except FetchError as error:
            raise PluginFailed(str(error)) from None
        if fetched.status != 200 or not fetched.whole:
            why = f"status {fetched.status}" if fetched.status != 200 else f"larger than {LARGEST} bytes"
            raise PluginFailed(f"no document there: {why}")
        document = await asyncio.to_thread(read_document, fetched.text())
        self._kept.pop(url, None)
        self._kept[url] = _Kept(document, self._clock() + _KEPT_S, len(fetched.body))
        while sum(each.size for each in self._kept.values()) > _KEPT_BYTES:
            del self._kept[next(iter(self._kept))]
        return document
