"""A plugin is what a user chooses; its tools are what a model calls."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

log = logging.getLogger(__name__)


class PluginError(Exception):
    """A plugin cannot be used; the text says why, for the user."""


class ToolError(Exception):
    """A call failed; the model gets the text."""


@dataclass(frozen=True, slots=True)
class PluginTool:
    """A tool of a plugin."""

    name: str
    description: str
    parameters: dict[str, Any]
    """JSON Schema of an object."""
    call: Callable[[dict[str, Any]], Awaitable[str]]
    """Raises ToolError."""


@dataclass(frozen=True, slots=True)
class ChatPlugin:
    """Chosen by its URL."""

    url: str
    name: str
    """Name for people."""
    description: str
    """Description for models."""
    tools: tuple[PluginTool, ...]
    trusted: bool = False
    """The plugin is built in."""


@dataclass(frozen=True, slots=True)
class ToolObservation:
    """The result of a tool call."""

    text: str
    failed: bool = False


async def call_tool(
    tool: PluginTool, arguments: dict[str, Any], *, timeout_s: float, characters: int
) -> ToolObservation:
    """Call `tool`. Failures become observations for the model; results are cut to `characters`."""
    try:
        async with asyncio.timeout(timeout_s):
            found = strip_unstorable(await tool.call(arguments))
    except TimeoutError:
        return ToolObservation(f"Error: {tool.name} did not answer within {timeout_s:g} seconds", failed=True)
    except ToolError as error:
        return ToolObservation(strip_unstorable(f"Error: {error}")[:characters], failed=True)
    except Exception as error:  # noqa: BLE001 -- a tool is a stranger's, and what it raises may quote a prompt
        log.warning("the tool %s is broken: %s", tool.name, type(error).__name__)
        return ToolObservation(f"Error: {tool.name} is broken ({type(error).__name__})", failed=True)
    if len(found) > characters:
        found = f"{found[:characters]}\n… (cut: {len(found)} characters)"
    return ToolObservation(found)


def strip_unstorable(text: str) -> str:
    """Return `text` without what databases and JSON cannot hold: U+0000 and lone surrogates."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode()
