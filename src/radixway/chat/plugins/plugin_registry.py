"""The registry of plugins that may be chosen: built-in ones, MCP servers, and remote ones by their URL."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from yarl import URL

from radixway.chat.plugins.builtin_plugins import BuiltinPlugin, make_builtins
from radixway.chat.plugins.mcp_server import SCHEME, McpServer
from radixway.chat.plugins.openapi_operations import make_plugin_config, to_plugin_config
from radixway.chat.plugins.plugin import ChatPlugin, PluginError
from radixway.chat.plugins.remote_plugins import RemotePlugins
from radixway.core.config.chat import ChatPluginsConfig, McpServerConfig
from radixway.core.net import AddressAllowlist, UrlFetcher

PluginEntry = dict[str, Any]
"""`PluginEntry`: `url`, `enabled`, `plugin_config`, `trusted`."""


class PluginRegistry:
    """Belongs to one event loop, and works while `running()`."""

    def __init__(
        self,
        config: ChatPluginsConfig,
        servers: Mapping[str, McpServerConfig],
        clock: Callable[[], float],
    ) -> None:
        self._by_url_too = config.by_url
        self._fetcher = UrlFetcher(
            AddressAllowlist(config.allowed_networks), timeout_s=config.fetch_timeout_s
        )
        ours = make_builtins(self._fetcher, config.page_characters)
        self._ours: dict[str, BuiltinPlugin] = {name: ours[name] for name in config.builtin}
        self._by_url = RemotePlugins(self._fetcher, clock, result_bytes=8 * config.result_characters)
        self._servers = {SCHEME + name: McpServer(name, server) for name, server in servers.items()}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Start the MCP servers; close all connections when this ends."""
        starting = [asyncio.create_task(server.start_connection()) for server in self._servers.values()]
        try:
            yield
        finally:
            for task in starting:
                task.cancel()
            await asyncio.gather(*starting, return_exceptions=True)
            await asyncio.gather(*(server.aclose() for server in self._servers.values()))
            await self._fetcher.aclose()

    def find_builtin(self, name: str) -> BuiltinPlugin | None:
        """Return the built-in plugin `name`, if it is enabled."""
        return self._ours.get(name)

    def list_entries(self, base: str) -> list[PluginEntry]:
        """Return the plugins on offer. `base`: the gateway's address, with a slash."""
        ours = [
            _make_entry(f"{base}plugins/{name}/ai-plugin.json", to_plugin_config(plugin.to_manifest(base)))
            for name, plugin in self._ours.items()
        ]
        return ours + [_make_entry(url, _make_mcp_config(server)) for url, server in self._servers.items()]

    async def load_config(self, url: str, base: str) -> dict[str, Any]:
        """Return the manifest at `url`. Raises PluginError."""
        if (server := self._servers.get(url)) is not None:
            return _make_mcp_config(server)
        if (ours := self._find_own(url, base)) is not None:
            return to_plugin_config(ours.to_manifest(base))
        self._check_by_url(url)
        return await self._by_url.load_config(url)

    async def prepare_entries(self, entries: Sequence[PluginEntry], base: str) -> list[PluginEntry]:
        """Return `entries` as stored: the one that will be used gets its `plugin_config`, where it loads.

        Workers that fetch jobs throw away what a plugin without one finds. Who is trusted is ours to say.
        """
        ready: list[PluginEntry] = [
            {**entry, "trusted": self._is_ours(entry["url"], base)} for entry in entries
        ]
        first = find_enabled(ready)
        if first is not None and (first.get("plugin_config") is None or first["trusted"]):
            with suppress(PluginError):  # the answer's own record will say so
                first["plugin_config"] = await self.load_config(first["url"], base)
        return ready

    async def open_plugin(self, entry: PluginEntry) -> ChatPlugin:
        """Return the plugin that `entry` chooses, with its tools. Raises PluginError."""
        url: str = entry["url"]
        if (server := self._servers.get(url)) is not None:
            return await server.load_plugin()
        if entry.get("trusted") and (ours := self._ours.get(_builtin_name(url))) is not None:
            return ours.to_plugin(url)
        self._check_by_url(url)
        return await self._by_url.load_plugin(url)

    def _check_by_url(self, url: str) -> None:
        if url.startswith(SCHEME):
            raise PluginError("there is no such MCP server")
        if not self._by_url_too:
            raise PluginError("plugins of others are switched off here")

    def _is_ours(self, url: str, base: str) -> bool:
        return url in self._servers or self._find_own(url, base) is not None

    def _find_own(self, url: str, base: str) -> BuiltinPlugin | None:
        """Return the built-in plugin of that URL, below the address by which the client calls us."""
        try:
            here, there = URL(base), URL(url)
            same = (here.host, here.port) == (there.host, there.port)
        except ValueError:
            return None
        return self._ours.get(_builtin_name(url)) if same else None


def find_enabled(entries: Sequence[PluginEntry]) -> PluginEntry | None:
    """Return the entry that is used: the first enabled one, as published."""
    return next((entry for entry in entries if entry.get("enabled")), None)


def _builtin_name(url: str) -> str:
    """Return `x` of `…/plugins/x/ai-plugin.json`, or an empty text for another URL."""
    parts = url.partition("?")[0].rsplit("/", 3)
    return parts[2] if len(parts) == 4 and (parts[1], parts[3]) == ("plugins", "ai-plugin.json") else ""


def _make_entry(url: str, config: dict[str, Any]) -> PluginEntry:
    return {"url": url, "enabled": True, "plugin_config": config, "trusted": True}


def _make_mcp_config(server: McpServer) -> dict[str, Any]:
    """Describe an MCP server as a manifest, so that it can be chosen like a plugin."""
    description = f"The MCP server {server.name}"
    texts = {
        "name_for_model": server.name,
        "name_for_human": server.name,
        "description_for_human": description,
        "description_for_model": description,
    }
    return make_plugin_config(texts, "mcp", server.url)
