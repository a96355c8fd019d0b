"""The HTTP reference, from the OpenAPI documents that the gateway and the engine give out themselves."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from typing import Any

_ALL_PARTS = {
    "semantic": {"default_model": "any"},
    "semantic_cache": {"enabled": True},
    "keys": {"enabled": True},
}
"""Parts that have paths of their own, where they are configured."""
_METHODS = ("get", "post", "put", "patch", "delete")


def http_references() -> dict[str, str]:
    """The pages, by where they stand."""
    gateway, chats, responses, engine = openapi_documents()
    return {
        "reference/http-gateway.md": page_of(
            gateway,
            "The gateway over HTTP",
            "Its own document is at `/openapi.json` of every gateway, which `/docs` shows as a form. "
            "[What the paths mean, and their errors](../http.md).",
        ),
        "reference/http-chats.md": page_of(
            chats,
            "Chats over HTTP",
            "Served at `/openapi/chats.json`. [What they are for](../chats.md).",
        ),
        "reference/http-responses.md": page_of(
            responses,
            "Responses and conversations over HTTP",
            "OpenAI's stateful surface, served at `/openapi/responses.json`. "
            "[What is kept, and for how long](../chats.md#responses-openais-stateful-api).",
        ),
        "reference/http-engine.md": page_of(
            engine,
            "The engine over HTTP",
            "Served at `/openapi.json` of every engine. The engine asks nobody for a key: let nobody but the "
            "gateway reach it. [What it does](../engine.md).",
        ),
    }


def openapi_documents() -> tuple[dict[str, Any], ...]:
    """As a gateway with every part configured and the engine answer when they are asked for them."""
    from radixway.engine.server.app import openapi_document

    with tempfile.TemporaryDirectory() as home:
        before = os.environ.get("RADIXWAY_HOME")
        os.environ["RADIXWAY_HOME"] = home
        logging.disable(logging.CRITICAL)
        try:
            told = asyncio.run(_of_gateway())
        finally:
            logging.disable(logging.NOTSET)
            if before is None:
                del os.environ["RADIXWAY_HOME"]
            else:
                os.environ["RADIXWAY_HOME"] = before
    return (*told, openapi_document())


async def _of_gateway() -> list[dict[str, Any]]:
    from radixway.core.config import load_config
    from radixway.gateway.app import Gateway

    gateway = Gateway(load_config(overrides=_ALL_PARTS))
    async with gateway.running():
        paths = ("/openapi.json", "/openapi/chats.json", "/openapi/responses.json")
        return [await _get(gateway, path) for path in paths]


async def _get(app: Any, path: str) -> dict[str, Any]:
    body = bytearray()

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Mapping[str, Any]) -> None:
        body.extend(message.get("body", b""))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1")],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 30000),
        "state": {},
    }
    await app(scope, receive, send)
    told: dict[str, Any] = json.loads(bytes(body))
    return told


def page_of(document: Mapping[str, Any], title: str, about: str) -> str:
    """A document as a page: paths by tag, then the shapes that they have in common."""
    by_tag: dict[str, list[tuple[str, str, Mapping[str, Any]]]] = {}
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                operation = item[method]
                by_tag.setdefault((operation.get("tags") or ["other"])[0], []).append(
                    (method, path, operation)
                )
    shapes = document.get("components", {}).get("schemas", {})
    parts = [f"# {title}\n", f"Made from OpenAPI when this site is built. {about}\n"]
    for tag, operations in by_tag.items():
        parts.append(f"## {tag.replace('_', ' ').capitalize()}\n")
        for method, path, operation in operations:
            parts += _operation(method, path, operation)
    wanted = {
        name: shape
        for name, shape in shapes.items()
        if name not in ("HTTPValidationError", "ValidationError")
    }
    if wanted:
        parts.append("## Shapes\n")
        for name, shape in sorted(wanted.items()):
            parts += _shape(name, shape)
    return "\n".join(parts)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`\n"
    yield f"{_prose(operation.get('description') or operation.get('summary') or '')}\n"
    rows = [
        f"| `{each['name']}` | {each['in']} | {_type(each.get('schema', {}))} | "
        f"{'needed' if each.get('required') else ''} | {_cell(each.get('description', ''))} |"
        for each in operation.get("parameters", ())
    ]
    body = operation.get("requestBody", {})
    for media, content in body.get("content", {}).items():
        schema = content.get("schema", {})
        if "properties" in schema:
            rows += _fields(schema, "body")
        elif schema:
            rows.append(
                f"| | body | {_type(schema)} | {'needed' if body.get('required') else ''} | `{media}` |"
            )
    if rows:
        yield "| name | in | type | | |\n|---|---|---|---|---|"
        yield "\n".join(rows) + "\n"
    answers = []
    for status, answer in operation.get("responses", {}).items():
        content = answer.get("content", {})
        kinds = [
            f"`{media}`" + (f": {_type(each['schema'])}" if each.get("schema") else "")
            for media, each in content.items()
        ]
        said = answer.get("description", "")
        said = "" if said in ("Successful Response", "Validation Error") else said
        if status != "422" or "HTTPValidationError" not in json.dumps(answer):
            answers.append(f"**{status}** {' '.join(filter(None, [_cell(said), ', '.join(kinds)]))}".rstrip())
    if answers:
        yield " · ".join(answers) + "\n"


def _fields(schema: Mapping[str, Any], place: str) -> Iterator[str]:
    needed = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        said = field.get("description", "")
        default = field.get("default")
        if default not in (None, [], {}, ""):
            said = f"{said} Default `{json.dumps(default, ensure_ascii=False)}`.".strip()
        must = "needed" if name in needed else ""
        yield f"| `{name}` | {place} | {_type(field)} | {must} | {_cell(said)} |"


def _shape(name: str, shape: Mapping[str, Any]) -> Iterator[str]:
    yield f"### {name} {{ #{_anchor(name)} }}\n"
    if shape.get("description"):
        yield f"{_prose(shape['description'])}\n"
    if shape.get("properties"):
        yield "| field | type | | |\n|---|---|---|---|"
        for row in _fields(shape, "-"):
            yield row.replace(" | - | ", " | ", 1)
        yield ""
    else:
        yield f"{_type(shape)}\n"


def _type(schema: Mapping[str, Any]) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{_anchor(name)})"
    for some in ("anyOf", "oneOf"):
        if some in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[some]))
    if "allOf" in schema:
        return " and ".join(_type(each) for each in schema["allOf"])
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    kind = schema.get("type")
    if isinstance(kind, list):
        return " or ".join(kind)
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if (
        kind == "object"
        and isinstance(schema.get("additionalProperties"), Mapping)
        and schema["additionalProperties"]
    ):
        return f"mapping of {_type(schema['additionalProperties'])}"
    bounds = [
        f"{sign} {schema[key]}"
        for key, sign in (
            ("minimum", "≥"),
            ("exclusiveMinimum", ">"),
            ("maximum", "≤"),
            ("exclusiveMaximum", "<"),
        )
        if key in schema
    ]
    shown = schema.get("format") if kind == "string" and schema.get("format") else kind
    return f"{shown or 'anything'}{' (' + ', '.join(bounds) + ')' if bounds else ''}"


def _anchor(name: str) -> str:
    return "shape-" + re.sub(r"[^\w]+", "-", name.lower()).strip("-")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def _prose(text: str) -> str:
    return text.replace("<", "&lt;").strip()
