"""A database of tools: `tools_db.json` as published, with example queries beside each tool."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta

from radixway.core.config import ConfigError
from radixway.core.config.yaml_file import read_text
from radixway.semantics.encoders import EncoderError
from radixway.semantics.tools.profile_cache import ToolProfileCache
from radixway.semantics.tools.tool_definition import ToolDefinition
from radixway.semantics.tools.tool_index import ToolIndex

T = TypeVar("T")

_Name = Annotated[str, Meta(min_length=1, max_length=256)]
_Text = Annotated[str, Meta(min_length=1)]


class _Function(msgspec.Struct):
    name: _Name
    description: str = ""
    parameters: dict[str, Any] | None = None


class _Definition(msgspec.Struct):
    function: _Function
    type: str = "function"


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    tool: dict[str, Any]
    description: str = ""
    category: str = ""
    tags: tuple[str, ...] = ()
    examples: tuple[_Text, ...] = ()


def load_tools(path: Path) -> tuple[ToolDefinition, ...]:
    """Return the tools in a file: a list of `{tool, description, category, tags, examples}`.

    `tool` is what requests are given, in the form of chat completions. `description`, by default the tool's
    own, and `examples`, queries that want it, are what requests are compared with.

    Raises:
        ConfigError: it cannot be read or used; the text says where, by path and line.
    """
    tools: dict[str, ToolDefinition] = {}
    for index, (line, value) in enumerate(_iter_entries(path, read_text(path))):
        where = f"{path}:{line}: {index}"
        tool = _read_tool(value, where)
        if tool.name in tools:
            raise ConfigError(f"{where}.tool.function.name: {tool.name!r} comes twice")
        tools[tool.name] = tool
    return tuple(tools.values())


async def read_database(path: Path, profiles: ToolProfileCache) -> ToolIndex | None:
    """Return the index of the tools in a file; None where there is none in it. Raises ConfigError."""
    tools = await asyncio.to_thread(load_tools, path)
    try:
        read = await profiles.database_profiles(tools, path)
    except EncoderError as error:
        raise ConfigError(f"{path}: its tools cannot be encoded: {error}") from None
    return await asyncio.to_thread(ToolIndex, tools, read) if tools else None


def _read_tool(value: Any, where: str) -> ToolDefinition:
    entry = _convert(value, _Entry, where)
    function = _convert(entry.tool, _Definition, f"{where}.tool").function
    try:
        definition = msgspec.Raw(msgspec.json.encode(entry.tool))
        msgspec.json.encode(entry)
    except UnicodeEncodeError:
        raise ConfigError(f"{where}: it has half a character (a lone surrogate)") from None
    return ToolDefinition(
        name=function.name,
        definition=definition,
        description=entry.description or function.description,
        category=entry.category,
        tags=entry.tags,
        examples=entry.examples,
    )


def _convert(value: Any, kind: type[T], where: str) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        message, _, at = str(error).partition(" - at `$")
        raise ConfigError(f"{where}{at.rstrip('`')}: {message}") from None


def _iter_entries(path: Path, text: str) -> Iterator[tuple[int, Any]]:
    """Yield the list's items with their lines."""
    decoder = json.JSONDecoder(parse_constant=_refuse_constant)
    line, counted = 1, 0
    try:
        at = _past_spaces(text, 0)
        if text[at : at + 1] != "[":
            raise ConfigError(f"{path}:1: the file must be a list of tools")
        at = _past_spaces(text, at + 1)
        while text[at : at + 1] != "]":
            line, counted = line + text.count("\n", counted, at), at
            value, at = decoder.raw_decode(text, at)
            yield line, value
            at = _past_spaces(text, at)
            if text[at : at + 1] == ",":
                at = _past_spaces(text, at + 1)
            elif text[at : at + 1] != "]":
                raise json.JSONDecodeError("Expecting ',' or ']'", text, at)
        if (rest := _past_spaces(text, at + 1)) < len(text):
            raise json.JSONDecodeError("Extra data", text, rest)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}:{error.lineno}: not valid JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}:{line}: not valid JSON: {error}") from None


def _past_spaces(text: str, at: int) -> int:
    while text[at : at + 1] in ("\ufeff", " ", "\t", "\r", "\n") and at < len(text):
        at += 1
    return at


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")
