"""MCP servers as plugins: real ones, made with the official SDK, over both of its transports."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr, ValidationError

from radixway.chat.plugins.mcp_server import McpServer
from radixway.chat.plugins.plugin import ChatPlugin, PluginError, ToolObservation, call_tool
from radixway.chat.plugins.plugin_registry import PluginRegistry
from radixway.core.config.chat import ChatPluginsConfig, McpServerConfig
from radixway.core.http import bind_tcp

SHOP = str(Path(__file__).parents[2] / "support" / "mcp_shop.py")


@asynccontextmanager
async def over_stdio(**more: Any) -> AsyncIterator[McpServer]:
    server = McpServer("shop", McpServerConfig(command=sys.executable, args=(SHOP,), **more))
    try:
        yield server
    finally:
        await server.aclose()


@asynccontextmanager
async def over_http(**more: Any) -> AsyncIterator[McpServer]:
    listener = bind_tcp("127.0.0.1", 0)
    os.set_inheritable(listener.fileno(), True)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, SHOP, str(listener.fileno())), pass_fds=(listener.fileno(),)
    )
    port = listener.getsockname()[1]
    server = McpServer("shop", McpServerConfig(url=f"http://127.0.0.1:{port}/mcp", **more))
    try:
        yield server
    finally:
        await server.aclose()
        if process.returncode is None:
            process.kill()
        await process.wait()
        listener.close()


async def called(plugin: ChatPlugin, name: str, timeout_s: float = 30, **arguments: Any) -> ToolObservation:
    tool = next(tool for tool in plugin.tools if tool.name == name)
    return await call_tool(tool, arguments, timeout_s=timeout_s, characters=1000)


@pytest.mark.parametrize("over", [over_stdio, over_http])
async def test_tools_of_a_server_are_called_and_what_fails_is_an_observation(over: Any) -> None:
    async with over() as server:
        plugin = await server.load_plugin()
        assert plugin.description == "A shop that sells pears." and plugin.trusted
        price = next(tool for tool in plugin.tools if tool.name == "price")
        assert price.description == "What so many of an item cost."
        assert price.parameters["required"] == ["item"]
        assert (await called(plugin, "price", item="pears", count=2)).text == "2 pears: 6 euros"
        refused = await called(plugin, "refuse")
        assert refused.failed and "sold out" in refused.text
        assert (await called(plugin, "price", count="many")).failed
        huge = await called(plugin, "huge")
        assert len(huge.text) < 1100
        hung = await called(plugin, "hang", timeout_s=0.2)
        assert hung.failed and "did not answer within 0.2 seconds" in hung.text
        assert (await called(plugin, "price", item="pears")).text == "1 pears: 3 euros"


async def test_a_server_that_dies_is_started_again_by_the_next_who_asks() -> None:
    async with over_stdio() as server:
        plugin = await server.load_plugin()
        assert (await called(plugin, "die")).failed
        again = await server.load_plugin()
        assert (await called(again, "price", item="plums")).text == "1 plums: 3 euros"
        assert (await called(plugin, "price", item="plums")).text == "1 plums: 3 euros"


async def test_a_server_has_the_environment_that_is_configured_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("GATEWAY_KEY", "the gateway's own")
    async with over_stdio(tools=("secret",), env={"SHOP_KEY": SecretStr("for the shop")}) as server:
        plugin = await server.load_plugin()
        assert [tool.name for tool in plugin.tools] == ["secret"]
        assert (await called(plugin, "secret", key="SHOP_KEY")).text == "for the shop"
        assert (await called(plugin, "secret", key="GATEWAY_KEY")).text == "nothing"


@pytest.mark.parametrize(
    "config",
    [
        {"command": "/nowhere/at/all"},
        {"command": sys.executable, "args": ("-c", "print('no protocol')")},
        {"command": sys.executable, "args": ("-c", "import time; time.sleep(60)"), "timeout_s": 0.5},
        {"url": "http://127.0.0.1:9/mcp"},
    ],
)
async def test_a_server_that_is_not_there_is_told_and_tried_again(config: dict[str, Any]) -> None:
    server = McpServer("shop", McpServerConfig(**config))
    for _ in range(2):
        with pytest.raises(PluginError, match="the MCP server shop"):
            await server.load_plugin()
    await server.aclose()


async def test_a_server_is_offered_as_a_plugin_whether_it_is_there_or_not() -> None:
    section = McpServerConfig(command="/nowhere/at/all")
    plugins = PluginRegistry(ChatPluginsConfig(builtin=()), {"shop": section}, lambda: 0.0)
    async with plugins.running():
        (entry,) = plugins.list_entries("http://gateway/")
        assert entry["url"] == "mcp:shop" and entry["enabled"] and entry["trusted"]
        assert entry["plugin_config"]["api"]["type"] == "mcp" and json.dumps(entry)
        assert await plugins.load_config("mcp:shop", "http://gateway/") == entry["plugin_config"]
        with pytest.raises(PluginError):
            await plugins.load_config("mcp:other", "http://gateway/")


@pytest.mark.parametrize("config", [{}, {"command": "x", "url": "http://x"}, {"url": "ftp://x"}])
def test_a_server_is_either_a_command_or_a_url(config: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        McpServerConfig(**config)
