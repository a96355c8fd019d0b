"""The built-in plugins, with the manifests and interfaces of the published ones, and their icons."""

import struct
import zlib
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from radixway.bundled import read_toml
from radixway.chat.plugins.calculator import CalculationError, calculate
from radixway.chat.plugins.page_reader import PageReader
from radixway.chat.plugins.plugin import ChatPlugin, PluginTool, ToolError
from radixway.core.net import UrlFetcher


@dataclass(frozen=True, slots=True)
class BuiltinPlugin:
    """A built-in plugin with one operation, whose parameters are all required text."""

    name: str
    title: str
    name_for_model: str
    name_for_human: str
    description_for_human: str
    description_for_model: str
    contact_email: str
    legal_info_url: str
    path: str
    operation_id: str
    summary: str
    parameters: dict[str, str]
    colour: tuple[int, int, int]
    """Of the icon: red, green, blue."""
    answer: Callable[[dict[str, str]], Awaitable[str]]
    """Raises ToolError."""
    tags: Sequence[dict[str, str]] = ()

    def to_manifest(self, base: str) -> dict[str, Any]:
        """Return `ai-plugin.json`. `base`: the gateway's address, with a slash at its end."""
        here = f"{base}plugins/{self.name}"
        return {
            "schema_version": "v1",
            "name_for_model": self.name_for_model,
            "name_for_human": self.name_for_human,
            "description_for_human": self.description_for_human,
            "description_for_model": self.description_for_model,
            "api": {"type": "openapi", "url": f"{here}/openapi.json", "has_user_authentication": False},
            "auth": {"type": "none"},
            "logo_url": f"{here}/icon.png",
            "contact_email": self.contact_email,
            "legal_info_url": self.legal_info_url,
        }

    def to_openapi(self) -> dict[str, Any]:
        """`openapi.json`."""
        invalid = {"schema": {"$ref": "#/components/schemas/HTTPValidationError"}}
        operation = {
            "summary": self.summary,
            "operationId": self.operation_id,
            "parameters": [_parameter_schema(name, text) for name, text in self.parameters.items()],
            "responses": {
                "200": {
                    "description": "Successful Response",
                    "content": {"application/json": {"schema": {}}},
                },
                "422": {"description": "Validation Error", "content": {"application/json": invalid}},
            },
        }
        return {
            "openapi": "3.0.2",
            "info": {"title": self.title, "version": "0.1"},
            "servers": [{"url": f"/plugins/{self.name}"}],
            "paths": {self.path: {"get": operation}},
            "tags": list(self.tags),
        }

    def to_plugin(self, url: str) -> ChatPlugin:
        """Return the plugin as models are offered it, under `url`."""
        schema = {
            "type": "object",
            "properties": {
                name: {"type": "string", "description": text} for name, text in self.parameters.items()
            },
            "required": list(self.parameters),
        }
        tool = PluginTool(self.operation_id, self.summary, schema, self._call_operation)
        return ChatPlugin(url, self.name_for_human, self.description_for_model, (tool,), trusted=True)

    async def _call_operation(self, arguments: dict[str, Any]) -> str:
        missing = [name for name in self.parameters if arguments.get(name) in (None, "")]
        if missing:
            raise ToolError(f"missing: {', '.join(missing)}")
        return await self.answer({name: str(arguments[name]) for name in self.parameters})


def _parameter_schema(name: str, text: str) -> dict[str, Any]:
    title = name.replace("_", " ").title()
    schema = {"title": title, "type": "string", "description": text}
    return {"description": text, "required": True, "schema": schema, "name": name, "in": "query"}


async def _run_retriever(pages: PageReader, given: dict[str, str]) -> str:
    text = await pages.read_text(given["url"].strip(" \n<>\"'`"))  # as models quote it
    lines = "".join(f"  {line}\n" for line in text.split("\n"))
    return f"text_content: |\n{lines}\n\nThought: I now know the answer.\n"


async def _run_calculator(given: dict[str, str]) -> str:
    try:
        return calculate(given["expression"])
    except CalculationError as error:
        raise ToolError(str(error)) from None


async def _fill_template(template: str, given: dict[str, str]) -> str:
    return template.format_map(given)


def make_builtins(fetcher: UrlFetcher, page_characters: int) -> dict[str, BuiltinPlugin]:
    """Return the built-in plugins by name. `page_characters`: of a page that `web_retriever` reads."""
    answers: dict[str, Callable[[dict[str, str]], Awaitable[str]]] = {
        "web_retriever": partial(_run_retriever, PageReader(fetcher, page_characters)),
        "calculator": _run_calculator,
    }
    found = {}
    for name, fields in read_toml("chat/builtin_plugins.toml").items():
        instructions = fields.pop("instructions", None)
        answer = answers[name] if instructions is None else partial(_fill_template, instructions)
        found[name] = BuiltinPlugin(name=name, answer=answer, **fields | {"colour": tuple(fields["colour"])})
    return found


_SIDE_PIXELS = 64


@cache
def render_icon(colour: tuple[int, int, int]) -> bytes:
    """Return a disc of 64 by 64 pixels in `colour`, as PNG."""
    middle = (_SIDE_PIXELS - 1) / 2
    rows = bytearray()
    for y in range(_SIDE_PIXELS):
        rows += b"\0"  # no filter
        for x in range(_SIDE_PIXELS):
            inside = (x - middle) ** 2 + (y - middle) ** 2 <= middle**2
            rows += bytes(colour) + (b"\xff" if inside else b"\0")
    header = struct.pack(">IIBBBBB", _SIDE_PIXELS, _SIDE_PIXELS, 8, 6, 0, 0, 0)
    parts = (
        _png_chunk(b"IHDR", header),
        _png_chunk(b"IDAT", zlib.compress(bytes(rows), 9)),
        _png_chunk(b"IEND", b""),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
