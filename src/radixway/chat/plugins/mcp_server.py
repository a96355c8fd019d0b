"""Servers of the Model Context Protocol, by its official SDK: one connection each, made when it is needed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from radixway.chat.plugins.plugin import ChatPlugin, PluginError, PluginTool, ToolError
from radixway.core.config.chat import McpServerConfig

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import CallToolResult

log = logging.getLogger(__name__)

SCHEME = "mcp:"
"""Scheme of the URLs that choose such servers as plugins."""


class _HeldConnection:
    def __init__(self) -> None:
        self.client: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        self.drop = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class McpServer:
    """An MCP server. Belongs to one event loop; a failed connection is retried with the next request."""

    def __init__(self, name: str, config: McpServerConfig) -> None:
        self.name = name
        self.url = SCHEME + name
        self._config = config
        self._connection: _HeldConnection | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def aclose(self) -> None:
        """End the connection, and the process behind it."""
        self._drop_connection()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def start_connection(self) -> None:
        """Connect early, so that the first request need not wait; failures are retried then."""
        with suppress(PluginError):
            await self.load_plugin()

    async def load_plugin(self) -> ChatPlugin:
        """Return the server with its present tools. Raises PluginError."""
        try:
            async with asyncio.timeout(self._config.timeout_s):
                if self._connection is not None:
                    try:
                        return await self._list_tools()
                    except Exception as error:  # noqa: BLE001 -- an old connection may be closed
                        log.info("reconnecting to the MCP server %s: %s", self.name, _explain_error(error))
                        self._drop_connection()
                return await self._list_tools()
        except PluginError:
            raise
        except Exception as error:  # transports raise what they like
            self._drop_connection()
            log.warning("the MCP server %s cannot be used: %s", self.name, _explain_error(error))
            raise PluginError(f"the MCP server {self.name} cannot be used") from error

    async def _list_tools(self) -> ChatPlugin:
        client = await self._get_client()
        offered = self._config.tools
        tools, cursor = list[PluginTool](), None
        while True:
            page = await client.list_tools(cursor=cursor)
            for tool in page.tools:
                if offered is None or tool.name in offered:
                    call = partial(self._call_tool, tool.name)
                    tools.append(PluginTool(tool.name, tool.description or "", dict(tool.input_schema), call))
            cursor = page.next_cursor
            if cursor is None or len(tools) >= 128:
                break
        if not tools:
            raise PluginError("it has no tools")
        description = self._config.description or client.instructions or f"Tools of {self.name}"
        return ChatPlugin(self.url, self.name, description, tuple(tools), trusted=True)

    async def _call_tool(self, name: str, arguments: dict[str, Any]) -> str:
        try:
            client = await self._get_client()
            result = await client.call_tool(name, arguments, read_timeout_seconds=self._config.timeout_s)
        except Exception as error:
            log.warning("%s of the MCP server %s failed: %s", name, self.name, type(error).__name__)
            if _is_closed(error):
                self._drop_connection()
            raise ToolError(f"{name} failed: {_describe_error(error)}") from error
        text = _result_text(result)
        if result.is_error:
            raise ToolError(text)
        return text

    async def _get_client(self) -> Client:
        if self._connection is None:
            self._connection = _HeldConnection()
            task = self._connection.task = asyncio.create_task(self._hold_connection(self._connection))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(self._connection.client)

    async def _hold_connection(self, connection: _HeldConnection) -> None:
        """Open and close the connection in one task, as the SDK demands."""
        try:
            await asyncio.to_thread(_import_sdk)  # seconds of a core's time
            async with self._open_client() as client:
                connection.client.set_result(client)
                await connection.drop.wait()
        except BaseException as error:
            if not connection.client.done():
                connection.client.set_exception(ConnectionError(_explain_error(error)))
                connection.client.exception()  # mark it retrieved, since the caller may have left
            if not isinstance(error, Exception):
                raise
        finally:
            if self._connection is connection:
                self._connection = None

    @asynccontextmanager
    async def _open_client(self) -> AsyncIterator[Client]:
        import httpx2
        from mcp import Client, StdioServerParameters
        from mcp.client.streamable_http import streamable_http_client

        config, timeout_s = self._config, self._config.timeout_s
        if config.url is None:
            assert config.command is not None
            started = StdioServerParameters(
                command=config.command,
                args=list(config.args),
                env={name: value.get_secret_value() for name, value in config.env.items()},
                cwd=config.cwd,
            )
            async with Client(started, read_timeout_seconds=timeout_s) as client:
                yield client
            return
        headers = {name: value.get_secret_value() for name, value in config.headers.items()}
        async with httpx2.AsyncClient(headers=headers, timeout=timeout_s) as http:
            over: AbstractAsyncContextManager[Any] = streamable_http_client(config.url, http_client=http)
            async with Client(over, read_timeout_seconds=timeout_s) as client:
                yield client

    def _drop_connection(self) -> None:
        """Drop the connection; the next call opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.task is not None:
            connection.drop.set()
            if not connection.client.done():
                connection.task.cancel()


def _import_sdk() -> None:
    import mcp  # noqa: F401


def _is_closed(error: Exception) -> bool:
    """Return whether the connection is lost; others share it, so a mere refusal keeps it."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED

    if isinstance(error, MCPError):
        return error.error.code == CONNECTION_CLOSED
    return isinstance(error, OSError | anyio.BrokenResourceError | anyio.ClosedResourceError)


def _result_text(result: CallToolResult) -> str:
    parts = [getattr(block, "text", None) or f"[{block.type}]" for block in result.content]
    if not parts and result.structured_content is not None:
        return str(result.structured_content)
    return "\n".join(parts)


def _describe_error(error: Exception) -> str:
    """Describe an error to the model: the server's words, and of the transport its kind alone."""
    from mcp import MCPError

    return error.error.message[:1000] if isinstance(error, MCPError) else type(error).__name__


def _explain_error(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"[:300]
