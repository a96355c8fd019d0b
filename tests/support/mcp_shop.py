"""A server of the Model Context Protocol, made with the official SDK: on stdin and stdout, or over HTTP."""

from __future__ import annotations

import asyncio
import os
import sys

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

shop = MCPServer("shop", instructions="A shop that sells pears.")


@shop.tool()
def price(item: str, count: int = 1) -> str:
    """What so many of an item cost."""
    return f"{count} {item}: {3 * count} euros"


@shop.tool()
def refuse() -> str:
    """Always says no."""
    raise ToolError("sold out")


@shop.tool()
def huge() -> str:
    """A very long answer."""
    return "y" * 1_000_000


@shop.tool()
async def hang() -> str:
    """Never answers."""
    await asyncio.Event().wait()
    return ""


@shop.tool()
def die() -> str:
    """Ends the process."""
    os._exit(1)


@shop.tool()
def secret(key: str) -> str:
    """What the environment holds for it."""
    return os.environ.get(key, "nothing")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        import uvicorn

        uvicorn.run(shop.streamable_http_app(), fd=int(sys.argv[1]), log_level="error")
    else:
        shop.run("stdio")
