"""Remote plugins: a manifest, an OpenAPI document, and calls to the addresses in them, all untrusted."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from yarl import URL

from radixway.chat.plugins.openapi_operations import (
    MAX_DOCUMENT_BYTES,
    PluginOperation,
    parse_document,
    parse_operations,
    to_plugin_config,
)
from radixway.chat.plugins.plugin import ChatPlugin, PluginError, PluginTool, ToolError
from radixway.core.net import FetchError, UrlFetcher

_CACHE_TTL_S = 300.0
_MAX_CACHE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class _CachedDocument:
    document: dict[str, Any]
    until: float
    size: int


class RemotePlugins:
    """Documents are kept for five minutes. Belongs to one event loop."""

    def __init__(self, fetcher: UrlFetcher, clock: Callable[[], float], *, result_bytes: int) -> None:
        """`result_bytes`: of an answer, that is read."""
        self._fetcher = fetcher
        self._clock = clock
        self._result_bytes = result_bytes
        self._documents: dict[str, _CachedDocument] = {}

    async def load_config(self, url: str) -> dict[str, Any]:
        """Return the manifest at `url` in the published shape. Raises PluginError."""
        return to_plugin_config(await self._load_document(url))

    async def load_plugin(self, url: str) -> ChatPlugin:
        """Return the plugin at `url` with its tools. Raises PluginError."""
        config = await self.load_config(url)
        try:
            at = str(URL(url).join(URL(config["api"]["url"])))
        except ValueError:
            raise PluginError("the manifest's api.url is no URL") from None
        found = parse_operations(await self._load_document(at), at)
        tools = tuple(
            PluginTool(api.name, api.description, api.parameters, partial(self._call_operation, api))
            for api in found
        )
        name = config["name_for_human"] or config["name_for_model"]
        return ChatPlugin(url, name, config["description_for_model"], tools)

    async def _call_operation(self, operation: PluginOperation, arguments: dict[str, Any]) -> str:
        try:
            url, headers, body = operation.build_request(arguments)
            answer = await self._fetcher.fetch(
                url, method=operation.method, headers=headers, body=body, max_bytes=self._result_bytes
            )
        except (FetchError, ValueError) as error:
            raise ToolError(str(error)) from None
        if not 200 <= answer.status < 300:
            raise ToolError(f"status {answer.status}: {answer.decode_text()[:500]}")
        return answer.decode_text()

    async def _load_document(self, url: str) -> dict[str, Any]:
        cached = self._documents.get(url)
        if cached is not None and cached.until > self._clock():
            return cached.document
        try:
            fetched = await self._fetcher.fetch(url, max_bytes=MAX_DOCUMENT_BYTES)
        except FetchError as error:
            raise PluginError(str(error)) from None
        if fetched.status != 200 or not fetched.is_complete:
            why = (
                f"status {fetched.status}"
                if fetched.status != 200
                else f"larger than {MAX_DOCUMENT_BYTES} bytes"
            )
            raise PluginError(f"no document there: {why}")
        document = await asyncio.to_thread(parse_document, fetched.decode_text())
        self._documents.pop(url, None)
        self._documents[url] = _CachedDocument(document, self._clock() + _CACHE_TTL_S, len(fetched.body))
        while sum(cached.size for cached in self._documents.values()) > _MAX_CACHE_BYTES:
            del self._documents[next(iter(self._documents))]
        return document
